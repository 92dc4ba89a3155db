//! Which of several servers behind one address a datagram is for: by its flow, never by an address, and without a table (`SPEC.md`, section 1).

use super::packet::{CONNECTION_ID_OCTETS, LEAST_INITIAL_OCTETS};
use super::{ConnectionId, IdCipher, KEY_OCTETS, Kind, ModernError, flow_connection_id};

/// First octet, version, pattern and suites of an Initial, before its two ids. Other versions have them in the same places.
const INITIAL_HEAD_OCTETS: usize = 4;

/// Where a datagram that a client sends belongs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Steering {
    /// To the server of that number, which has the flow: a packet of a flow, or the Initial of a client that has restarted.
    Server(u16),
    /// To any one server: a new flow. The number is the same for every repetition of its Initial, with a token or without, and is spread evenly:
    /// [`Steering::server_of`].
    New(u64),
}

impl Steering {
    /// The place in `servers` (numbers, no two alike) of the server that the datagram goes to; nothing when a flow's server is not among them.
    ///
    /// A new flow goes to the server that comes out highest for it, so that a server that is added or taken away moves only those Initials that
    /// go to it.
    pub fn server_of(self, servers: &[u16]) -> Option<usize> {
        match self {
            Self::Server(number) => servers.iter().position(|server| *server == number),
            Self::New(flow) => servers
                .iter()
                .enumerate()
                .max_by_key(|(_, server)| (mix(flow ^ mix(u64::from(**server))), **server))
                .map(|(place, _)| place),
        }
    }
}

/// Every bit of the result depends on every bit of the number (the finalizer of SplitMix64: Steele, Lea and Flood 2014, figure 15).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Tells where the datagrams of clients belong. It holds the key of the servers' connection ids and nothing else.
#[derive(Debug)]
pub struct Steerer(IdCipher);

impl Steerer {
    /// One for servers that make their connection ids with that key ([`super::Config::id_key`]), each with a number of its own
    /// ([`super::Config::server`]).
    pub fn new(id_key: &[u8; KEY_OCTETS]) -> Self {
        Self(IdCipher::new(id_key))
    }

    /// Where a datagram from a client belongs.
    ///
    /// # Errors
    /// [`ModernError::Truncated`], [`ModernError::InitialTooShort`]; [`ModernError::Kind`] when no client sends such a datagram;
    /// [`ModernError::UnknownFlow`] when a flow's id was not made with the key.
    pub fn steer(&self, datagram: &[u8]) -> Result<Steering, ModernError> {
        match Kind::of(datagram)? {
            Kind::Flow => {
                let content = self.0.open(&flow_connection_id(datagram)?);
                content
                    .map(|content| Steering::Server(content.server))
                    .ok_or(ModernError::UnknownFlow)
            }
            Kind::Initial => {
                if datagram.len() < LEAST_INITIAL_OCTETS {
                    return Err(ModernError::InitialTooShort);
                }
                let ids = datagram.get(INITIAL_HEAD_OCTETS..).unwrap_or(&[]);
                let (ids, _) = ids.as_chunks::<CONNECTION_ID_OCTETS>();
                let [destination, source, ..] = ids else { return Err(ModernError::Truncated) };
                Ok(match self.0.open(destination) {
                    Some(content) => Steering::Server(content.server),
                    None => Steering::New(self.spread(source)),
                })
            }
            Kind::Answer | Kind::Retry | Kind::Versions => Err(ModernError::Kind),
        }
    }

    /// A number of the client's id that nobody can foretell who has not the key, so that nobody can aim all new flows at one server.
    fn spread(&self, source: &ConnectionId) -> u64 {
        self.0.unforeseen(source)
    }
}
