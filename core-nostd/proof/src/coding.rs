//! Field arithmetic and network coding, for every field.

use core::hint::black_box;
use heddle_core::gf::{self, Field, Gf2, Gf16, Gf256, Gf256With11d, Gf65536, Rows, RowsMut};
use heddle_core::rlnc::{
    CoefficientGenerator, Combinations, Decoder, Elimination, Encoder, Recoder, RecoderState,
    WindowDecoder, WindowEncoder, cauchy_row, recode, source_matrix,
};

static mut MEMORY: [u8; 1 << 16] = [0; 1 << 16];

/// Calls everything that `rlnc` offers, with sizes that the compiler knows nothing of.
pub fn coding() {
    black_box(gf::kernel_name());
    black_box(gf::force(black_box("scalar")).is_ok());
    each::<Gf2>();
    each::<Gf16>();
    each::<Gf256>();
    each::<Gf256With11d>();
    each::<Gf65536>();
}

fn each<F: Field>() {
    let (k, block_octets) = (black_box(3u8), black_box(64usize));
    // SAFETY: this program has one thread, and the slice of one call of this function is gone before the next.
    let memory: &mut [u8] = unsafe { &mut *(&raw mut MEMORY) };
    let (octets, memory) = memory.split_at_mut(1 << 12);
    let (vector, payload) = octets.split_at_mut(64);
    let (vector, payload) = (black_box(vector), black_box(payload));
    let mut generator = CoefficientGenerator::new(black_box(1));

    F::mul_add(payload, F::element(black_box(1)), vector);
    F::scale(payload, F::element(black_box(1)));
    black_box(F::inv(F::mul(F::element(black_box(1)), F::element(black_box(2)))).is_some());
    black_box(cauchy_row::<F>(k, black_box(0), vector).is_ok());
    let mut matrix = RowsMut::new(payload, black_box(3), black_box(64));
    black_box(source_matrix::<F>(k, &mut matrix, &mut generator, memory).is_ok());

    if let Ok(mut decoder) = Decoder::<F>::new(k, block_octets, black_box(&mut *memory)) {
        black_box(decoder.insert(vector, payload).is_ok());
        black_box(decoder.block_into(black_box(0), payload).is_ok());
        black_box(
            decoder.blocks_into(&mut RowsMut::new(payload, block_octets, block_octets)).is_ok(),
        );
        black_box(decoder.recode(vector, vector_copy(), payload).is_ok());
    }
    if let Ok(mut recoder) = Recoder::<F>::new(k, block_octets, black_box(&mut *memory)) {
        black_box(recoder.insert(vector, payload).is_ok());
        black_box(recoder.recode_random(&mut generator, vector, payload).is_ok());
    }
    let sources: &[&[u8]] = black_box(&[&[1, 2], &[3, 4]]);
    if let Ok(encoder) = Encoder::<F, _>::new(sources, block_octets) {
        black_box(encoder.random(&mut generator, vector, payload).is_ok());
        black_box(encoder.systematic(black_box(0), vector, payload).is_ok());
        let vectors = Rows::new(vector, black_box(3), black_box(8));
        let mut payloads = RowsMut::new(payload, block_octets, black_box(64));
        black_box(encoder.batch(&vectors, &mut payloads).is_ok());
    }
    rest::<F>(k, block_octets, vector, payload, memory, &mut generator);
}

fn rest<F: Field>(
    k: u8,
    block_octets: usize,
    vector: &mut [u8],
    payload: &mut [u8],
    memory: &mut [u8],
    generator: &mut CoefficientGenerator,
) {
    generator.fill_sparse::<F>(vector, black_box(20), black_box(9));
    *generator = CoefficientGenerator::from_seed_4(black_box([0; 4]));
    *generator = CoefficientGenerator::from_seed_8(black_box([0; 8]));
    generator.fill::<F>(vector, black_box(20));
    if let Ok(mut elimination) = Elimination::<F>::new(k) {
        black_box(elimination.insert(memory, vector).is_ok());
        black_box(elimination.decodable().iter().count());
    }
    if let Ok(recoder) = RecoderState::<F>::new(k, block_octets) {
        let mut combinations = Combinations::new(black_box(1));
        black_box(recoder.recode_packet_next(memory, &mut combinations, payload).is_ok());
        black_box(recoder.recode_packet_random(memory, generator, payload).is_ok());
    }
    let rows = Rows::new(memory, black_box(8), black_box(8));
    black_box(recode::<F>(black_box(&[1, 2]), &rows, &rows, vector, payload).is_ok());
    if let Ok(mut encoder) = WindowEncoder::<F>::new(k, block_octets, black_box(1), memory) {
        black_box(encoder.push(payload).is_ok());
        encoder.acknowledge(black_box(1));
        black_box(encoder.repair(vector, payload).is_ok());
    }
    if let Ok(mut decoder) = WindowDecoder::<F>::new(k, block_octets, black_box(1), memory) {
        black_box(decoder.source(black_box(1), payload).is_ok());
        black_box(decoder.repair(black_box(1), black_box(2), vector, payload).is_ok());
        black_box((decoder.next(payload).is_ok(), decoder.skip()));
    }
}

/// A second vector that the compiler knows nothing of.
fn vector_copy() -> &'static mut [u8] {
    black_box(&mut [])
}
