//! CODED IP: random linear network coding between the IP layer and the transport layer.
//!
//! A source cuts UDP datagrams to a multicast group into generations of K blocks and sends linear
//! combinations of them; switches recombine what they hold (forwarders); edge switches solve for the
//! blocks and deliver the original datagrams as normal IP packets (destinations). Hosts see nothing of it.
//! Section and figure numbers in this module are those of the paper "CODED IP: On the Feasibility of
//! IP-Layer Network Coding".
//!
//! [`CodedNode`] is the protocol state of one node on one core. It is given its memory ([`Memory`]) and
//! its [`Settings`], and then driven through [`crate::node::Node`].

mod destination;
mod forwarder;
mod generation;
mod header;
mod links;
mod list;
mod node;
mod pacer;
mod session;
mod settings;
mod source;
mod window;

pub use generation::{Generation, generation_octets};
pub use header::{
    BLOCK_LEN_UNIT_OCTETS, CODED_HEADER_OCTETS, CodedHeader, MAX_BLOCK_OCTETS, block_len_units,
};
pub use node::{CodedDrop, CodedNode, Memory, session_shard, shard};
pub use session::{Session, SessionKey};
pub use settings::{
    Cut, MAX_RULES, MAX_SES_MAX_GEN, PortSettings, Role, SendingRule, SessionRule, Settings,
    SettingsError,
};

use crate::named::named_enum;

named_enum! {
    /// Why a packet that could be CODED IP's is not taken.
    pub enum CodedError {
        /// Not CODED IP and not for a source here: the frame is none of ours.
        NotCoded = "not_coded",
        /// Fewer octets than the coded header.
        HeaderTruncated = "header_truncated",
        /// GEN_SIZE is 0.
        GenSizeZero = "gen_size_zero",
        /// BLOCK_LEN is 0.
        BlockLenZero = "block_len_zero",
        /// Fewer octets than the coding vector that GEN_SIZE tells.
        VectorTruncated = "vector_truncated",
        /// BLOCK_LEN and the IP length disagree.
        BlockLen = "block_len",
        /// GEN_ID is beyond SESSION_LEN.
        GenId = "gen_id",
        /// The time to live is used up (RFC 1812, 5.3.1).
        Ttl = "ttl",
        /// GEN_SIZE or BLOCK_LEN is more than this node has room for.
        GenerationTooLarge = "generation_too_large",
        /// No rule of this node names the session.
        ForeignSession = "foreign_session",
        /// The session does not come in on this port.
        WrongPort = "wrong_port",
        /// There is no room for a further session.
        SessionTableFull = "session_table_full",
        /// There is no memory for a generation of a further session.
        NoMemory = "no_memory",
        /// SESSION_LEN is not that of the session's first packet.
        SessionLenChanged = "session_len_changed",
        /// GEN_SIZE is not that of the generation's first packet.
        GenSizeChanged = "gen_size_changed",
        /// BLOCK_LEN is not that of the generation's first packet.
        BlockLenChanged = "block_len_changed",
        /// PROTOCOL is not that of the generation's first packet.
        ProtocolChanged = "protocol_changed",
        /// PROTOCOL is not UDP's, so a destination cannot know the length of what it decodes.
        ProtocolUnknown = "protocol_unknown",
        /// The coding vector is a combination of those already held (section II.B).
        NotInnovative = "not_innovative",
        /// GEN_ID is behind what the session carries.
        GenIdLate = "gen_id_late",
        /// GEN_ID is ahead of what the session can be carrying.
        GenIdImplausible = "gen_id_implausible",
        /// The datagram does not fit in a generation.
        DatagramTooLarge = "datagram_too_large",
        /// All generations of the session still wait to be sent: the sender is faster than the links.
        SourceQueueFull = "source_queue_full",
        /// The engine had no frame to give, or one too short.
        NoFrame = "no_frame",
        /// A decoded block does not hold a datagram that fits in it.
        DecodedLen = "decoded_len",
        /// A decoded datagram's checksum is wrong: something on the way has changed a coded packet.
        DecodedChecksum = "decoded_checksum",
    }
}

named_enum! {
    /// What a node has done, beside dropping.
    pub enum CodedEvent {
        /// Sessions that began.
        SessionsStarted = "sessions_started",
        /// Sessions that ended by `ses_time_out`.
        SessionsTimedOut = "sessions_timed_out",
        /// Generations that began.
        GenerationsStarted = "generations_started",
        /// Generations flushed to make room for a newer one.
        GenerationsFlushed = "generations_flushed",
        /// Those of them that a link still waited to send from.
        GenerationsFlushedUnsent = "generations_flushed_unsent",
        /// Those of them that a destination had not decoded: what was in them is lost.
        GenerationsLost = "generations_lost",
        /// Packets that told something new.
        PacketsInnovative = "packets_innovative",
        /// Packets made by a source.
        PacketsCoded = "packets_coded",
        /// Packets made by a forwarder.
        PacketsRecoded = "packets_recoded",
        /// Datagrams taken by a source.
        DatagramsTaken = "datagrams_taken",
        /// Generations decoded in full.
        GenerationsDecoded = "generations_decoded",
        /// Datagrams delivered as normal IP packets (counted once, whatever the number of ports).
        DatagramsDelivered = "datagrams_delivered",
    }
}
