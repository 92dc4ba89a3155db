//! The `modern` suite: every packet is encrypted and authenticated. `SPEC.md`, one folder up, specifies it.
//!
//! [`Handshake`] runs the two Noise messages and ends in [`SessionSecrets`]; [`Sealer`] and [`Opener`] are
//! one direction's keys at its two ends, with header protection, change of keys and the replay window; [`Initial`],
//! [`Answer`], [`Retry`] and [`Versions`] are the packets of the handshake, [`Parameters`] what its messages carry, and
//! [`RetryKey`] makes and checks tokens; [`Frames`] and [`FrameWriter`] are what flow packets carry.
//!
//! These are sections 1 to 4 of the specification. [`Endpoint`] is sections 5 to 8: the state machine of
//! both ends, recovery, congestion control, paths, streams and timers, in memory of the caller's and with no clock and no I/O of its own.
//! A [`Ticket`] is what a caller writes to a disk so that a flow outlives the process: [`Endpoint::ticket`], [`Endpoint::restore`].

mod active;
mod bbr;
mod congestion;
mod cubic;
mod endpoint;
mod flow;
mod frame;
mod ids;
mod keys;
mod noise;
mod packet;
mod parameters;
mod path;
mod protect;
pub(super) mod random;
pub(super) mod ranges;
mod recovery;
mod replay;
mod restart;
mod retry;
mod rtt;
mod slow_start;
mod steer;
mod stream;
mod ticket;
pub(super) mod timers;
mod varint;

pub use active::Active;
pub use congestion::Congestion;
pub use endpoint::{
    Config, Connect, Counter, Endpoint, Event, FlowId, Memory, Message, StreamError, Transmit,
    message_octets,
};
pub use flow::{CloseReason, Flow, MAX_STREAMS, Phase};
pub use ids::{IdCipher, IdContent};
pub use path::PathAddress;
pub use recovery::Sent;

pub use frame::{AckRange, AckRanges, Frame, FrameWriter, Frames, MAX_ACK_RANGES, data_overhead};
pub use keys::{ResumeSecret, SessionSecrets, TrafficSecret};
pub use noise::{Handshake, Identity, KEY_OCTETS, Pattern, Role, public_key};
pub use packet::{
    Answer, CONNECTION_ID_OCTETS, ConnectionId, FLOW_HEADER_OCTETS, Initial, Kind,
    LEAST_INITIAL_OCTETS, Retry, VERSION, Versions, flow_connection_id,
};
pub use parameters::Parameters;
pub use protect::{
    INTEGRITY_LIMIT, Opened, Opener, REKEY_OCTETS, REKEY_PACKETS, Sealer, SleepingOpener,
    SleepingSealer, TAG_OCTETS,
};
pub use replay::{REPLAY_WINDOW, ReplayWindow};
pub use restart::{Report as RestartReport, StreamReport};
pub use retry::{RETRY_LIFETIME_S, RetryKey, TOKEN_OCTETS};
pub use steer::{Steerer, Steering};
pub use ticket::{TICKET_OCTETS, Ticket};
pub use varint::VARINT_END;

use crate::named::named_enum;

/// How flow packets are encrypted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// ChaCha20-Poly1305 (RFC 8439): fast everywhere.
    ChaCha20Poly1305,
    /// AES-256-GCM: faster where the processor has instructions for it.
    Aes256Gcm,
}

impl Suite {
    /// The suite's bit in an Initial, and its value in parameter 5.
    pub const fn bit(self) -> u8 {
        match self {
            Self::ChaCha20Poly1305 => 1,
            Self::Aes256Gcm => 2,
        }
    }

    /// The suite of that bit.
    pub const fn from_bit(bit: u8) -> Option<Self> {
        match bit {
            1 => Some(Self::ChaCha20Poly1305),
            2 => Some(Self::Aes256Gcm),
            _ => None,
        }
    }
}

named_enum! {
    /// Why a packet, or a part of it, is not taken.
    pub enum ModernError {
        /// The first octet is none of this suite's.
        Kind = "kind",
        /// Fewer octets than the packet must have.
        Truncated = "truncated",
        /// An Initial of another version.
        Version = "version",
        /// A pattern that is not known, or not the one that this end speaks.
        Pattern = "pattern",
        /// No suite that both ends have.
        Suite = "suite",
        /// An Initial shorter than it has to be.
        InitialTooShort = "initial_too_short",
        /// A handshake message out of turn, or a key that the pattern needs is not there.
        Sequence = "sequence",
        /// A public key that leads to no secret.
        KeyValue = "key_value",
        /// The octets were not sealed with these keys, or were changed.
        Authentication = "authentication",
        /// Too many packets did not open: the keys must not be used any more.
        IntegrityLimit = "integrity_limit",
        /// A packet number that has opened before.
        Replay = "replay",
        /// A packet number too old to tell.
        TooOld = "too_old",
        /// A handshake message carries what is no parameter, or twice the same.
        Parameter = "parameter",
        /// A flow packet carries what is no frame.
        Frame = "frame",
        /// Reserved bits, or bits of a packet number above those that are used, are set under the protection.
        Reserved = "reserved",
        /// The packet numbers are used up.
        NumbersUsedUp = "numbers_used_up",
        /// A packet number that was used before, or is below one that was.
        NumberReused = "number_reused",
        /// A token that this server did not make for this address.
        Token = "token",
        /// A token from too long ago.
        TokenExpired = "token_expired",
        /// The buffer has no room for what is to be written.
        NoRoom = "no_room",
        /// Octets beyond what this end has said that it takes.
        FlowControl = "flow_control",
        /// Octets beyond the end of a stream, or another end than was said.
        FinalSize = "final_size",
        /// A frame about a stream that this end never opened.
        Stream = "stream",
        /// A stream more than this end takes at a time: the packet counts as lost.
        StreamLimit = "stream_limit",
        /// An acknowledgement of a packet that was never sent.
        Acknowledgement = "acknowledgement",
        /// No flow has this connection id.
        UnknownFlow = "unknown_flow",
        /// A client's key that is not in the list.
        NotAuthorized = "not_authorized",
        /// All places for flows are taken, and none has slept long enough to be given up.
        TableFull = "table_full",
        /// The address has as many flows as one may have.
        AddressBudget = "address_budget",
        /// All active parts are in use: the packet counts as lost.
        NoActive = "no_active",
        /// No room to remember one gap more: the packet counts as lost.
        Gaps = "gaps",
        /// More answers to handshakes wait to be sent than there is room for.
        ReplyQueue = "reply_queue",
        /// A restart's message that was seen before, or of a ticket older than the last restart.
        OldTicket = "old_ticket",
        /// Octets that are no ticket, or one of another version.
        Ticket = "ticket",
        /// A packet of before a restart, or of keys that this end does not have.
        OldKeys = "old_keys",
        /// The handshake was answered with a demand for a token.
        RetryDemanded = "retry_demanded",
    }
}
