//! Random linear network coding over a generation of equal blocks.
//!
//! A *generation* is K source blocks of N octets, K from 1 to 255. A *packet* is a coding vector (K packed
//! symbols of the field, [`vector_octets`] octets) and a payload: the sum of the source blocks, each times its coefficient.
//! Any K packets with independent vectors give the source blocks back.
//!
//! | part | holds | does |
//! |---|---|---|
//! | [`Encoder`] | the source blocks | makes packets: systematic, random, from given coefficients |
//! | [`Elimination`] | coding vectors only | says whether a packet is innovative |
//! | [`RecoderState`], [`Recoder`] | innovative packets as received | makes new packets of them |
//! | [`DecoderState`], [`Decoder`] | the same and the transform | gives each block as soon as it is decodable; recodes too |
//! | [`WindowEncoder`], [`WindowDecoder`] | the latest blocks of a stream | repair a stream with little delay, without generations |
//!
//! Nothing allocates. The `...State` types are small and plain; their methods take the memory as an argument, so that
//! thousands of generations can live in one slab. Memory need not be cleared before use and belongs to one state until that
//! is done with. [`Recoder`] and [`Decoder`] are a state together with its borrowed memory. Memory that begins at a multiple
//! of 64 octets is fastest.
//!
//! All sizes are fixed at creation. Wrong input gives an [`RlncError`] and leaves the state as it was.

mod combinations;
mod decoder;
mod elimination;
mod encoder;
mod generator;
mod recoder;
mod store;
mod window;

pub use crate::gf::vector_octets;
pub use combinations::Combinations;
pub use decoder::{Decoder, DecoderState};
pub use elimination::{Arrival, BlockSet, Elimination};
pub use encoder::{Encoder, cauchy_row, source_matrix};
pub use generator::CoefficientGenerator;
pub use recoder::{Recoder, RecoderState, recode};
pub use window::{WindowArrival, WindowDecoder, WindowEncoder};

/// Why something was refused. Nothing has changed then.
#[repr(u8)]
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum RlncError {
    /// The generation would have no blocks.
    KZero = 1,
    /// The blocks would be empty.
    BlockLenZero = 2,
    /// The blocks would not hold whole symbols of the field, or be longer than 2^31 octets.
    BlockLen = 3,
    /// The coding vector has another length than K symbols take.
    VectorLength = 4,
    /// The bits after the last symbol of the coding vector are not zero.
    VectorPadding = 5,
    /// The payload has another length than a block.
    PayloadLength = 6,
    /// The memory is smaller than `memory_octets` says.
    MemoryTooSmall = 7,
    /// The buffer for the output has another length than what goes there.
    OutputLength = 8,
    /// The coefficients are not one for each packet (or block).
    CoefficientCount = 9,
    /// The coefficients give a zero vector: such a packet must not go out.
    ZeroVector = 10,
    /// There is no block or row of that number.
    NoSuchBlock = 11,
    /// What has arrived does not determine that block yet.
    NotDecodable = 12,
    /// No packet is held.
    NothingHeld = 13,
    /// The field has too few elements for such a matrix.
    FieldTooSmall = 14,
    /// The blocks are not all within one window.
    OutsideWindow = 15,
}

impl core::fmt::Display for RlncError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::KZero => "a generation of no blocks",
            Self::BlockLenZero => "blocks of no octets",
            Self::BlockLen => "a block length that the field or the implementation cannot do",
            Self::VectorLength => "a coding vector of the wrong length",
            Self::VectorPadding => "a coding vector with bits after its last symbol",
            Self::PayloadLength => "a payload of the wrong length",
            Self::MemoryTooSmall => "too little memory",
            Self::OutputLength => "an output buffer of the wrong length",
            Self::CoefficientCount => "the wrong number of coefficients",
            Self::ZeroVector => "coefficients that give a zero vector",
            Self::NoSuchBlock => "a block number past the end",
            Self::NotDecodable => "a block that is not decodable yet",
            Self::NothingHeld => "no packet held",
            Self::OutsideWindow => "blocks that are not all within one window",
            Self::FieldTooSmall => "a matrix that the field is too small for",
        })
    }
}

impl core::error::Error for RlncError {}
