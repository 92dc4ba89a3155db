//! The `paper` suite: DTP as its authors put it on the wire, hardened where the wire allows.
//!
//! | packet | carries |
//! |---|---|
//! | SYN | the client's RSA key, its Host ID, its window scale, the keep-alive duration that it asks for |
//! | SYN+ACK | the flow's secret under that key (RSA-OAEP, SHA-1), the server's Host ID, the server port that the flow moves to |
//! | CHG | a nonce, sent to a packet's new address |
//! | RSP | HMAC-SHA1 of the nonce under the secret |
//! | AUTH | the proof was right: the flow goes on at the new address |
//!
//! [`Packet`] takes a UDP payload apart and [`PacketWriter`] puts one together; [`PublicKey`], [`PrivateKey`]
//! and [`Secret`] are the handshake, [`Challenge`] the proof of an address, [`FlowState::judge`] says what
//! a packet means to an established flow. Every way in which a packet can be wrong is one [`PaperError`].
//!
//! # What this suite does not protect
//! Data is neither encrypted nor authenticated. The client's key is not certified, so who sits on the path of
//! the handshake can read the secret (put another key in the SYN) and move the flow later. Who sits on the path of an
//! established flow can inject data and a RST with the right sequence number. A nonce has 32 bits, and SHA-1 is what the wire says.
//! Use this suite to talk to existing DTP programs, over networks that you trust.

mod challenge;
mod endpoint;
mod flow;
mod handshake;
mod header;
mod options;
mod rsa;

pub use challenge::{CHALLENGE_LIFETIME, Challenge, NONCE_OCTETS, RESPONSE_OCTETS, Secret};
pub use endpoint::{
    Active, ClientKey, CloseReason, Config, DATAGRAM_OCTETS, Endpoint, Event, Flow, FlowHandle,
    Memory, Phase, Transmit,
};
pub use flow::{Accepted, FlowState, SequenceNumber};
pub use handshake::{
    DEFAULT_KEEP_ALIVE_S, HandshakeOptions, KeepAliveLimits, LEAST_KEEP_ALIVE_S, MAX_WINDOW_SHIFT,
    Syn, SynAck, write_syn_payload,
};
pub use header::{Flags, HEADER_OCTETS, Header, MAX_HEADER_OCTETS, Packet, PacketWriter};
pub use options::{
    DtpOption, HOST_ID_OCTETS, HostId, MAX_SACK_BLOCKS, Options, SackBlock, SackBlocks,
};
pub use rsa::{MAX_KEY_BITS, MIN_KEY_BITS, OAEP_SEED_OCTETS, PrivateKey, PublicKey, SECRET_OCTETS};

use crate::named::named_enum;

named_enum! {
    /// Why a packet, or a part of it, is not taken.
    pub enum PaperError {
        /// Fewer octets than the header.
        HeaderTruncated = "header_truncated",
        /// The data offset is below the header's five words or beyond the packet.
        DataOffset = "data_offset",
        /// An option is of a length that its kind does not have, or passes the header.
        OptionLength = "option_length",
        /// No flow has the id 0.
        FlowIdZero = "flow_id_zero",
        /// Flags that do not go together.
        Flags = "flags",
        /// The payload of a CHG is not a nonce.
        NonceLength = "nonce_length",
        /// The payload of a RSP is not an HMAC-SHA1.
        ResponseLength = "response_length",
        /// The lengths in a SYN do not add up to its payload, or a SYN+ACK's payload is not as long as the key.
        KeyLength = "key_length",
        /// The key has too few or too many bits.
        KeySize = "key_size",
        /// The modulus or the exponent cannot be an RSA key's.
        KeyValue = "key_value",
        /// The secret does not decrypt.
        Secret = "secret",
        /// A SYN or SYN+ACK without a Host ID.
        HostIdMissing = "host_id_missing",
        /// The flow is told to move to port 0.
        PortZero = "port_zero",
        /// Acknowledges what was never sent.
        Ack = "ack",
        /// No flow has this id.
        UnknownFlow = "unknown_flow",
        /// A SYN for a flow that is established: it never gets a new key.
        SynOnEstablished = "syn_on_established",
        /// Data that lies wholly outside of the receive window.
        OutOfWindow = "out_of_window",
        /// A RST whose sequence number is outside of the receive window.
        RstOutOfWindow = "rst_out_of_window",
        /// A RST from an address that has not proven itself.
        AddressNotProven = "address_not_proven",
        /// A RSP or an AUTH that nothing asked for, or too late.
        NoChallenge = "no_challenge",
        /// A RSP that the flow's secret did not make.
        Response = "response",
        /// A SACK block that ends before it begins or is empty.
        SackInverted = "sack_inverted",
        /// A SACK block of what was never sent.
        SackBeyondSent = "sack_beyond_sent",
        /// A SACK block of what is acknowledged already.
        SackOld = "sack_old",
        /// A SACK on a flow that does not have it.
        SackNotPermitted = "sack_not_permitted",
        /// The buffer, or the option part of the header, has no room for what is to be written.
        NoRoom = "no_room",
        /// A SYN to an end that takes none.
        NotServing = "not_serving",
        /// All places for flows are taken.
        TableFull = "table_full",
        /// The address has as many flows that are not proven as one may have.
        AddressBudget = "address_budget",
        /// All active parts are in use: the packet counts as lost.
        NoActive = "no_active",
        /// No room to remember one gap more: the packet counts as lost.
        Gaps = "gaps",
        /// More answers wait to be sent than there is room for.
        ReplyQueue = "reply_queue",
    }
}
