//! What the controller has counted.

use serde::Serialize;

macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident;)+) => {
        /// Counters since the controller's start. They never fall.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Counters {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Each counter's name and value.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

counters! {
    /// Connections that were made.
    connections;
    /// Switches that said who they are and were set up.
    switches_set_up;
    /// Connections closed because the other side broke the protocol.
    connections_broken;
    /// Connections closed because the other side gave no sign of life.
    connections_silent;
    /// Connections closed because the same switch had connected again.
    connections_replaced;
    /// Switches that no island of the configuration is behind.
    switches_unknown;
    /// Errors that switches answered with.
    errors_from_switches;
    /// Messages that a controller has no use for.
    messages_unexpected;
    /// Flows sent for names, each change of one anew.
    flows_added;
    /// Flows for names taken away.
    flows_deleted;
    /// Programs sent.
    programs_sent;
    /// Interests that switches sent here.
    interests;
    /// Of those, Interests that went back to their switch with the way to an island.
    interests_forwarded;
    /// Of those, Interests for names that no island serves.
    interests_without_route;
    /// Of those, Interests of which the switch sent only a part.
    interests_cut;
    /// Packets from switches that are neither Interests nor announcements.
    packets_other;
    /// Packets from ports that no island is behind.
    packets_from_strangers;
    /// Announcements that came through switches.
    announcements_by_packet_in;
    /// Announcements that came by UDP.
    announcements_by_udp;
    /// Of those by UDP, from addresses that no island's forwarder has.
    announcements_from_strangers;
    /// Announcements that cannot be read.
    announcements_malformed;
    /// Announcements with too many names.
    announcements_too_large;
    /// Announcements whose signature is not right.
    announcements_badly_signed;
    /// Names in announcements that are none, or too long for a flow.
    names_bad;
    /// Names beyond an island's limit.
    names_beyond_limit;
    /// Names that were announced for the first time or at another cost.
    names_announced;
    /// Names that were taken back by their islands.
    names_withdrawn;
    /// Names that were not announced again in time.
    names_expired;
    /// Names that another island than before serves from now on, counted for each switch.
    failovers;
}
