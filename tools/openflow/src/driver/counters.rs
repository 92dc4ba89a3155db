//! What has become of connections.

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident,)+) => {
        /// Counters of a [`super::Driver`].
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$meta])* pub $name: u64,)+ }

        impl Counters {
            /// Each counter with its name.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

counters! {
    /// Connections to controllers that came about.
    connected,
    /// Attempts to reach a controller that came to nothing.
    unreachable,
    /// Connections that others opened.
    accepted,
    /// Connections that others opened when there were too many.
    too_many,
    /// Connections that the other side closed or that failed.
    closed,
    /// Connections that were closed for what was said on them.
    refused,
    /// Connections on which TLS failed.
    tls_failed,
    /// Connections whose other side did not say hello in time.
    no_hello,
    /// Connections whose other side said nothing whole, or read next to nothing, for too long.
    silent,
    /// Connections whose other side let too much wait to be read.
    slow,
    /// Octets received.
    received_octets,
    /// Octets sent.
    sent_octets,
    /// Times that no controller was there for so long that the switch went on by itself.
    standalone,
}
