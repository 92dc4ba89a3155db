//! The decoder, which also recodes.

use super::{NULL, code, octets, octets_mut, with_field};
use heddle_core::gf::{Field, Gf2, Gf16, Gf256, Gf256With11d, Gf65536};
use heddle_core::rlnc::{Arrival, Combinations, DecoderState, RlncError, vector_octets};
use std::ffi::c_int;

/// What the C functions need of a decoder in any field.
trait AnyDecoder {
    fn vector_octets(&self) -> usize;
    fn block_octets(&self) -> usize;
    fn rank(&self) -> u8;
    fn is_decodable(&self, block: u8) -> bool;
    fn insert(
        &mut self,
        memory: &mut [u8],
        vector: &[u8],
        payload: &[u8],
    ) -> Result<Arrival, RlncError>;
    fn block(&self, memory: &[u8], block: u8, output: &mut [u8]) -> Result<(), RlncError>;
    fn recode(
        &self,
        memory: &[u8],
        combinations: &mut Combinations,
        packet: &mut [u8],
    ) -> Result<(), RlncError>;
}

impl<F: Field> AnyDecoder for DecoderState<F> {
    fn vector_octets(&self) -> usize {
        vector_octets::<F>(self.k().into())
    }

    fn block_octets(&self) -> usize {
        self.block_octets()
    }

    fn rank(&self) -> u8 {
        self.rank()
    }

    fn is_decodable(&self, block: u8) -> bool {
        self.decodable().contains(block)
    }

    fn insert(
        &mut self,
        memory: &mut [u8],
        vector: &[u8],
        payload: &[u8],
    ) -> Result<Arrival, RlncError> {
        self.insert(memory, vector, payload)
    }

    fn block(&self, memory: &[u8], block: u8, output: &mut [u8]) -> Result<(), RlncError> {
        self.block_into(memory, block, output)
    }

    fn recode(
        &self,
        memory: &[u8],
        combinations: &mut Combinations,
        packet: &mut [u8],
    ) -> Result<(), RlncError> {
        self.recoder().recode_packet_next(memory, combinations, packet)
    }
}

/// A decoder of one generation.
pub struct HeddleDecoder {
    state: Box<dyn AnyDecoder>,
    memory: Vec<u8>,
    combinations: Combinations,
    packet: Vec<u8>,
}

/// A decoder of a generation of `k` blocks of `block_octets`, to be given back to `heddle_decoder_free`. Null when these sizes or the field are refused.
/// `seed` determines the packets that `heddle_decoder_recode` makes.
#[unsafe(no_mangle)]
pub extern "C" fn heddle_decoder_new(
    field: c_int,
    k: u8,
    block_octets: usize,
    seed: u64,
) -> *mut HeddleDecoder {
    fn create<F: Field>(k: u8, block_octets: usize) -> Option<(Box<dyn AnyDecoder>, usize)> {
        let state = DecoderState::<F>::new(k, block_octets).ok()?;
        Some((Box::new(state), DecoderState::<F>::memory_octets(k, block_octets)))
    }
    let Some((state, octets)) = with_field!(field, None, create(k, block_octets)) else {
        return std::ptr::null_mut();
    };
    let mut memory = Vec::new();
    if memory.try_reserve_exact(octets).is_err() {
        return std::ptr::null_mut();
    }
    memory.resize(octets, 0);
    let packet = vec![0; state.vector_octets() + state.block_octets()];
    let combinations = Combinations::new(seed);
    Box::into_raw(Box::new(HeddleDecoder { state, memory, combinations, packet }))
}

/// Frees a decoder. Null is no harm.
///
/// # Safety
/// `decoder` is null or came from `heddle_decoder_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_decoder_free(decoder: *mut HeddleDecoder) {
    if !decoder.is_null() {
        // SAFETY: the caller vouches that it came from `Box::into_raw` and is freed once.
        drop(unsafe { Box::from_raw(decoder) });
    }
}

/// Takes a packet in: 1 when it was innovative, 0 when not. When `decoded` is not null, bit b of octet a of its 32 octets says whether this packet
/// made block 8 a + b decodable.
///
/// # Safety
/// `decoder` is alive; `vector` and `payload` are good for their octets, `decoded` is null or good for 32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_decoder_insert(
    decoder: *mut HeddleDecoder,
    vector: *const u8,
    payload: *const u8,
    decoded: *mut u8,
) -> c_int {
    // SAFETY: the caller's own obligation.
    let Some(decoder) = (unsafe { decoder.as_mut() }) else { return NULL };
    let (vector_len, block_len) = (decoder.state.vector_octets(), decoder.state.block_octets());
    // SAFETY: as above.
    let (Some(vector), Some(payload)) =
        (unsafe { (octets(vector, vector_len), octets(payload, block_len)) })
    else {
        return NULL;
    };
    let outcome = decoder.state.insert(&mut decoder.memory, vector, payload);
    // SAFETY: as above.
    if let Some(bits) = unsafe { octets_mut(decoded, 32) } {
        bits.fill(0);
        if let Ok(Arrival::Innovative { decoded, .. }) = outcome {
            for block in decoded.iter() {
                if let Some(octet) = bits.get_mut(usize::from(block >> 3)) {
                    *octet |= 1 << (block & 7);
                }
            }
        }
    }
    code(outcome, |arrival| c_int::from(arrival != Arrival::Redundant))
}

/// The number of innovative packets so far.
///
/// # Safety
/// `decoder` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_decoder_rank(decoder: *const HeddleDecoder) -> c_int {
    // SAFETY: the caller's own obligation.
    unsafe { decoder.as_ref() }.map_or(NULL, |decoder| decoder.state.rank().into())
}

/// Whether block `block` is decodable: 1 or 0.
///
/// # Safety
/// `decoder` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_decoder_is_decodable(
    decoder: *const HeddleDecoder,
    block: u8,
) -> c_int {
    // SAFETY: the caller's own obligation.
    unsafe { decoder.as_ref() }.map_or(NULL, |decoder| decoder.state.is_decodable(block).into())
}

/// Computes block `block` into `output`.
///
/// # Safety
/// `decoder` is null or alive; `output` is good for the octets of a block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_decoder_block(
    decoder: *const HeddleDecoder,
    block: u8,
    output: *mut u8,
) -> c_int {
    // SAFETY: the caller's own obligation.
    let Some(decoder) = (unsafe { decoder.as_ref() }) else { return NULL };
    // SAFETY: as above.
    let Some(output) = (unsafe { octets_mut(output, decoder.state.block_octets()) }) else {
        return NULL;
    };
    code(decoder.state.block(&decoder.memory, block, output), |()| 0)
}

/// Makes a new packet of those that have arrived: never a zero vector, and no packet twice.
///
/// # Safety
/// `decoder` is null or alive; `vector` and `payload` are good for their octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heddle_decoder_recode(
    decoder: *mut HeddleDecoder,
    vector: *mut u8,
    payload: *mut u8,
) -> c_int {
    // SAFETY: the caller's own obligation.
    let Some(decoder) = (unsafe { decoder.as_mut() }) else { return NULL };
    let (vector_len, block_len) = (decoder.state.vector_octets(), decoder.state.block_octets());
    // SAFETY: as above.
    let (Some(vector), Some(payload)) =
        (unsafe { (octets_mut(vector, vector_len), octets_mut(payload, block_len)) })
    else {
        return NULL;
    };
    let HeddleDecoder { state, memory, combinations, packet } = decoder;
    let outcome = state.recode(memory, combinations, packet);
    if outcome.is_ok()
        && let Some((made_vector, made_payload)) = packet.split_at_checked(vector_len)
        && made_payload.len() == payload.len()
    {
        vector.copy_from_slice(made_vector);
        payload.copy_from_slice(made_payload);
    }
    code(outcome, |()| 0)
}
