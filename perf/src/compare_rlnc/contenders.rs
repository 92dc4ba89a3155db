//! Who competes, in each operation.

use super::isal::Isal;
use crate::timing::Contender;
use heddle_core::gf::{Field, Gf256, Rows, RowsMut};
use heddle_core::rlnc::{
    CoefficientGenerator, Decoder, DecoderState, Encoder, RecoderState, cauchy_row,
};
use rand::{RngCore, SeedableRng, rngs::SmallRng};
use rlnc_simdx::{CodedPacket, SimpleRng};
use std::hint::black_box;

/// Octets that begin at a multiple of 64.
pub struct Aligned {
    octets: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` octets that look random.
    pub fn random(len: usize, seed: u64) -> Self {
        let mut octets = vec![0; len + 64];
        SmallRng::seed_from_u64(seed).fill_bytes(&mut octets);
        let start = octets.as_ptr().align_offset(64);
        Self { octets, start, len }
    }

    /// The octets.
    pub fn get(&self) -> &[u8] {
        &self.octets[self.start..][..self.len]
    }

    /// The octets, to be written.
    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.octets[self.start..][..self.len]
    }
}

/// The blocks of one generation, and the library to compare with.
pub struct Input<'a> {
    /// Blocks.
    pub k: usize,
    /// Octets of each.
    pub n: usize,
    /// The blocks where they lie.
    pub rows: &'a Rows<'a>,
    /// The same, one slice each.
    pub slices: &'a [&'a [u8]],
    /// ISA-L, when installed.
    pub isal: Option<&'a Isal>,
}

/// `count` vectors of `k` elements, none zero.
fn vectors(k: usize, count: usize) -> Vec<u8> {
    let mut vectors = vec![0; k * count];
    CoefficientGenerator::new(5).fill_non_zero::<Gf256>(&mut vectors, k * count);
    vectors
}

/// A source of vectors that takes one of a few after the other.
struct Turns {
    vectors: Vec<u8>,
    k: usize,
    next: usize,
}

impl Turns {
    fn new(k: usize) -> Self {
        Self { vectors: vectors(k, 16), k, next: 0 }
    }

    fn next(&mut self) -> &[u8] {
        self.next = (self.next + 1) % 16;
        &self.vectors[self.next * self.k..][..self.k]
    }
}

/// Makes one coded packet.
pub fn encode<'a>(input: &Input<'a>) -> Vec<Contender<'a>> {
    let &Input { k, n, rows, slices, isal } = input;
    let mut contenders = vec![ours_given(rows, k, n)];

    if let Ok(encoder) = Encoder::<Gf256, _>::new(rows, n) {
        let (mut output, mut vector) = (Aligned::random(n, 1), vec![0; k]);
        let mut generator = CoefficientGenerator::new(1);
        contenders.push(Contender::new("ours, vector drawn", move || {
            let made = encoder.random(&mut generator, &mut vector, black_box(output.get_mut()));
            assert!(made.is_ok());
        }));
    }
    contenders.push(rlnc_encode(slices, k, n));
    if let Ok(encoder) = rlnc_simdx::Encoder::new(k, n) {
        let mut rng = SimpleRng::new(3);
        contenders.push(Contender::new("rlnc-simdx", move || {
            assert!(black_box(encoder.encode_random(slices, &mut rng)).is_ok());
        }));
    }
    if let Some(isal) = isal {
        for (name, avx2) in [("ISA-L", false), ("ISA-L, AVX2", true)] {
            let (mut output, mut turns, mut tables) =
                (Aligned::random(n, 1), Turns::new(k), Vec::new());
            contenders.push(Contender::new(name, move || {
                let output = black_box(output.get_mut());
                isal.encode(avx2, turns.next(), &mut tables, slices, &mut [output], n);
            }));
        }
    }
    contenders
}

/// Makes one coded packet with a vector that is given.
pub fn ours_given<'a>(rows: &'a Rows<'a>, k: usize, n: usize) -> Contender<'a> {
    let (mut output, mut turns) = (Aligned::random(n, 1), Turns::new(k));
    let encoder = Encoder::<Gf256, _>::new(rows, n);
    Contender::new("ours", move || {
        let output = black_box(output.get_mut());
        assert!(encoder.as_ref().is_ok_and(|encoder| encoder.encode(turns.next(), output).is_ok()));
    })
}

fn rlnc_encode<'a>(slices: &[&[u8]], k: usize, n: usize) -> Contender<'a> {
    // Less the octet that the crate adds to mark the end.
    let mut data = slices.concat();
    data.truncate(k * n - 1);
    let encoder = rlnc::full::Encoder::new(data, k);
    let (mut rng, mut piece) = (SmallRng::seed_from_u64(4), vec![0; k + n]);
    Contender::new("rlnc", move || {
        let piece = black_box(&mut piece);
        assert!(
            encoder.as_ref().is_ok_and(|encoder| encoder.code_with_buf(&mut rng, piece).is_ok())
        );
    })
}

/// Makes K coded packets in one go.
pub fn batch<'a>(input: &Input<'a>) -> Vec<Contender<'a>> {
    let &Input { k, n, rows, slices, isal } = input;
    let mut contenders = vec![ours_batch(rows, k, n)];
    if let Some(isal) = isal {
        let matrix = vectors(k, k);
        let (mut output, mut tables) = (Aligned::random(k * n, 1), Vec::new());
        contenders.push(Contender::new("ISA-L", move || {
            let mut outputs: Vec<&mut [u8]> = black_box(output.get_mut()).chunks_mut(n).collect();
            isal.encode(false, &matrix, &mut tables, slices, &mut outputs, n);
        }));
    }
    if let Ok(mut encoder) = reed_solomon_simd::ReedSolomonEncoder::new(k, k, n) {
        contenders.push(Contender::new("reed-solomon-simd", move || {
            assert!(slices.iter().all(|block| encoder.add_original_shard(block).is_ok()));
            assert!(black_box(encoder.encode()).is_ok());
        }));
    }
    contenders
}

/// Makes K coded packets in one go, ours only.
pub fn ours_batch<'a>(rows: &'a Rows<'a>, k: usize, n: usize) -> Contender<'a> {
    let (mut output, matrix) = (Aligned::random(k * n, 1), vectors(k, k));
    let encoder = Encoder::<Gf256, _>::new(rows, n);
    Contender::new("ours", move || {
        let mut outputs = RowsMut::packed(black_box(output.get_mut()), n);
        let vectors = Rows::packed(&matrix, k);
        assert!(
            encoder.as_ref().is_ok_and(|encoder| encoder.batch(&vectors, &mut outputs).is_ok())
        );
    })
}

/// Packets as everybody gets them: vectors and payloads.
pub struct Packets {
    /// Vectors of K elements.
    pub vectors: Vec<u8>,
    /// Payloads of N octets.
    pub payloads: Aligned,
}

impl Packets {
    /// K random packets, or with `systematic` the blocks less a tenth and coded packets in their place, last.
    pub fn new(input: &Input<'_>, systematic: bool) -> Self {
        let &Input { k, n, slices, .. } = input;
        let lost = if systematic { k.div_ceil(10) } else { k };
        let mut matrix = vec![0; k * k];
        let mut generator = CoefficientGenerator::new(11);
        for (index, vector) in matrix.chunks_mut(k).enumerate() {
            if index < k - lost {
                vector[index] = 1;
            } else if cauchy_row::<Gf256>(k as u8, index, vector).is_err() {
                generator.fill_non_zero::<Gf256>(vector, k);
            }
        }
        if !systematic {
            generator.fill_non_zero::<Gf256>(&mut matrix, k * k);
        }
        let mut payloads = Aligned::random(k * n, 3);
        Gf256::product(
            &mut RowsMut::packed(payloads.get_mut(), n),
            &Rows::packed(&matrix, k),
            slices,
        );
        Self { vectors: matrix, payloads }
    }

    fn iter(&self, k: usize, n: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.vectors.chunks(k).zip(self.payloads.get().chunks(n))
    }
}

/// Makes one packet of K packets at hand.
pub fn recode<'a>(input: &Input<'a>, packets: &'a Packets) -> Vec<Contender<'a>> {
    let &Input { k, n, isal, .. } = input;
    let mut contenders = Vec::new();
    let mut memory = Aligned::random(RecoderState::<Gf256>::memory_octets(k as u8, n), 2);
    if let Ok(mut recoder) = RecoderState::<Gf256>::new(k as u8, n) {
        for (vector, payload) in packets.iter(k, n) {
            assert!(recoder.insert(memory.get_mut(), vector, payload).is_ok());
        }
        let mut packet = Aligned::random(k + n, 1);
        let mut generator = CoefficientGenerator::new(1);
        contenders.push(Contender::new("ours", move || {
            let packet = black_box(packet.get_mut());
            assert!(recoder.recode_packet_random(memory.get(), &mut generator, packet).is_ok());
        }));
    }

    let pieces: Vec<u8> =
        packets.iter(k, n).flat_map(|(vector, payload)| [vector, payload].concat()).collect();
    let mut recoder = rlnc::full::Recoder::new(pieces, k + n, k);
    let (mut rng, mut piece) = (SmallRng::seed_from_u64(4), vec![0; k + n]);
    contenders.push(Contender::new("rlnc", move || {
        let piece = black_box(&mut piece);
        assert!(
            recoder.as_mut().is_ok_and(|recoder| recoder.recode_with_buf(&mut rng, piece).is_ok())
        );
    }));

    let coded: Vec<CodedPacket> = packets
        .iter(k, n)
        .map(|(vector, payload)| CodedPacket::from_slices(vector, payload))
        .collect();
    let mut rng = SimpleRng::new(3);
    contenders.push(Contender::new("rlnc-simdx", move || {
        assert!(black_box(rlnc_simdx::Recoder::recode(&coded, &mut rng)).is_ok());
    }));

    if let Some(isal) = isal {
        let whole: Vec<Vec<u8>> =
            packets.iter(k, n).map(|(vector, payload)| [vector, payload].concat()).collect();
        let (mut packet, mut turns, mut tables) =
            (Aligned::random(k + n, 1), Turns::new(k), Vec::new());
        contenders.push(Contender::new("ISA-L", move || {
            let sources: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
            let packet = black_box(packet.get_mut());
            isal.encode(false, turns.next(), &mut tables, &sources, &mut [packet], k + n);
        }));
    }
    contenders
}

/// Decodes a generation from nothing, all blocks copied out. Each contender has been seen to give the right blocks.
pub fn decode<'a>(input: &Input<'a>, packets: &'a Packets, systematic: bool) -> Vec<Contender<'a>> {
    let &Input { k, n, slices, isal, .. } = input;
    let source = slices.concat();
    let mut contenders = Vec::new();

    let mut memory = Aligned::random(DecoderState::<Gf256>::memory_octets(k as u8, n), 2);
    let mut output = Aligned::random(k * n, 1);
    let mut ours = move || {
        let output = black_box(output.get_mut());
        let Ok(mut decoder) = Decoder::<Gf256>::new(k as u8, n, memory.get_mut()) else {
            return false;
        };
        let taken =
            packets.iter(k, n).all(|(vector, payload)| decoder.insert(vector, payload).is_ok());
        let given = decoder.blocks_into(&mut RowsMut::packed(output, n));
        taken && given.is_ok_and(|blocks| blocks.len() == k) && output.first() == source.first()
    };
    assert!(ours());
    contenders.push(Contender::new("ours", move || assert!(ours())));

    contenders.push(rlnc_decode(slices, k, n, systematic));

    let simdx = move || {
        let mut decoder = rlnc_simdx::Decoder::new(k, n).ok()?;
        for (vector, payload) in packets.iter(k, n) {
            decoder.receive(CodedPacket::from_slices(vector, payload)).ok()?;
        }
        decoder.decode().ok()?
    };
    assert!(simdx().is_some_and(|blocks| blocks.concat() == slices.concat()));
    contenders.push(Contender::new("rlnc-simdx", move || assert!(black_box(simdx()).is_some())));

    if let Some(isal) = isal {
        // Any invertible matrix costs the same; ISA-L's field is another, so its packets are its own.
        let mut payloads = vec![0; k * n];
        let mut tables = Vec::new();
        {
            let mut outputs: Vec<&mut [u8]> = payloads.chunks_mut(n).collect();
            isal.encode(false, &packets.vectors, &mut tables, slices, &mut outputs, n);
        }
        let (mut matrix, mut inverse) = (vec![0; k * k], vec![0; k * k]);
        let mut output = Aligned::random(k * n, 1);
        let expected = slices.concat();
        let mut run = move || {
            let output = black_box(output.get_mut());
            matrix.copy_from_slice(&packets.vectors);
            assert!(isal.invert(&mut matrix, &mut inverse, k));
            let sources: Vec<&[u8]> = payloads.chunks(n).collect();
            let known = if systematic { k - k.div_ceil(10) } else { 0 };
            // The blocks that came as they are need no sum.
            output[..known * n].copy_from_slice(&payloads[..known * n]);
            let mut outputs: Vec<&mut [u8]> = output.chunks_mut(n).skip(known).collect();
            isal.encode(false, &inverse[known * k..], &mut tables, &sources, &mut outputs, n);
            output[k * n - 1] == expected[k * n - 1]
        };
        assert!(run());
        contenders.push(Contender::new("ISA-L", move || assert!(run())));
    }
    if systematic && let Some(contender) = reed_solomon_decode(slices, k, n) {
        contenders.push(contender);
    }
    contenders
}

fn rlnc_decode<'a>(slices: &[&[u8]], k: usize, n: usize, systematic: bool) -> Contender<'a> {
    let mut data = slices.concat();
    data.truncate(k * n - 1);
    let mut padded = data.clone();
    padded.push(0x81);
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let known = if systematic { k - k.div_ceil(10) } else { 0 };
    for (index, block) in padded.chunks(n).take(known).enumerate() {
        let mut piece = vec![0; k];
        piece[index] = 1;
        piece.extend_from_slice(block);
        pieces.push(piece);
    }
    if let Ok(encoder) = rlnc::full::Encoder::new(data.clone(), k) {
        let mut rng = SmallRng::seed_from_u64(6);
        // Three more than needed, for the rare vector that is not innovative.
        pieces.extend((known..k + 3).map(|_| encoder.code(&mut rng)));
    }
    let run = move || {
        let mut decoder = rlnc::full::Decoder::new(n, k).ok()?;
        for piece in &pieces {
            if decoder.is_already_decoded() {
                break;
            }
            // An error only says that the piece was of no use.
            let _ = decoder.decode(piece);
        }
        decoder.get_decoded_data().ok()
    };
    assert!(run().is_some_and(|decoded| decoded == data));
    Contender::new("rlnc", move || assert!(black_box(run()).is_some()))
}

fn reed_solomon_decode<'a>(slices: &[&[u8]], k: usize, n: usize) -> Option<Contender<'a>> {
    let lost = k.div_ceil(10);
    let recovery = reed_solomon_simd::encode(k, lost, slices).ok()?;
    let source: Vec<Vec<u8>> = slices.iter().map(|block| block.to_vec()).collect();
    let mut decoder = reed_solomon_simd::ReedSolomonDecoder::new(k, lost, n).ok()?;
    let mut output = vec![0; k * n];
    Some(Contender::new("reed-solomon-simd", move || {
        let known = source.iter().take(k - lost).enumerate();
        for ((index, block), place) in known.zip(output.chunks_mut(n)) {
            place.copy_from_slice(block);
            assert!(decoder.add_original_shard(index, block).is_ok());
        }
        for (index, block) in recovery.iter().enumerate() {
            assert!(decoder.add_recovery_shard(index, block).is_ok());
        }
        let restored = decoder.decode();
        assert!(restored.is_ok());
        for (index, block) in restored.iter().flat_map(|restored| restored.restored_original_iter())
        {
            output[index * n..][..n].copy_from_slice(block);
        }
        black_box(&mut output);
    }))
}
