//! Where a controller or a switch is reached: `tcp:HOST:PORT` or `tls:HOST:PORT`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The port that is meant where none is told (OpenFlow 1.3.5, 6.3.1).
pub const DEFAULT_PORT: u16 = 6653;

/// What carries the messages.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Plain TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
}

/// An address: `tcp:HOST:PORT` or `tls:HOST:PORT`. The host is a name, an IPv4 address, or an IPv6 address in brackets; without a port
/// it is [`DEFAULT_PORT`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// What carries the messages.
    pub transport: Transport,
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

/// Text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no address: tcp:HOST:PORT or tls:HOST:PORT is one, with an IPv6 address in brackets"
)]
pub struct BadAddress(String);

impl Address {
    /// The IP addresses and ports that the name stands for now.
    ///
    /// # Errors
    /// When the name is not known.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        (self.host.as_str(), self.port).to_socket_addrs().map(Iterator::collect)
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress(text.to_owned());
        let (transport, rest) = text.split_once(':').ok_or_else(bad)?;
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "tls" | "ssl" => Transport::Tls,
            _ => return Err(bad()),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(bracketed) => {
                let (host, port) = bracketed.split_once(']').ok_or_else(bad)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?;
                let port = if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':').ok_or_else(bad)?)
                };
                (host, port)
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| bad()))?;
        if host.is_empty() || (host.contains(':') && !rest.starts_with('[')) {
            return Err(bad());
        }
        Ok(Self { transport, host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
        };
        if self.host.contains(':') {
            write!(f, "{transport}:[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{transport}:{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["tcp:127.0.0.1:6653", "tls:[::1]:7000", "tcp:controller.example:1"] {
            assert_eq!(
                text.parse::<Address>().map(|address| address.to_string()).as_deref(),
                Ok(text)
            );
        }
        assert_eq!("tcp:host".parse::<Address>().map(|address| address.port), Ok(DEFAULT_PORT));
        assert_eq!("tls:[::1]".parse::<Address>().map(|address| address.port), Ok(DEFAULT_PORT));
        for text in [
            "",
            "127.0.0.1:1",
            "udp:h:1",
            "tcp:",
            "tcp::1",
            "tcp:h:x",
            "tcp:h:65536",
            "tcp:::1:1",
            "tcp:[::1",
            "tcp:[::1]1",
            "tcp:[h]:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
