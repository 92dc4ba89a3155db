//! Properties of network coding over random generations, in every field.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

mod common;

use common::{hex_field, unpack, with_field};
use heddle_core::gf::{Field, Gf256, Rows, RowsMut};
use heddle_core::rlnc::{
    Arrival, CoefficientGenerator, Combinations, DecoderState, Elimination, Encoder, RecoderState,
    RlncError, cauchy_row, source_matrix, vector_octets,
};
use proptest::prelude::*;
use std::collections::HashSet;

const FIELDS: [&str; 5] = ["gf2", "gf2_4", "gf2_8_11b", "gf2_8_11d", "gf2_16"];

fn octets(seed: u64, len: usize) -> Vec<u8> {
    let mut generator = CoefficientGenerator::new(seed);
    (0..len).map(|_| generator.next_u64() as u8).collect()
}

/// The rank of vectors, by elimination on single elements.
fn rank<F: Field>(vectors: &[Vec<u8>], k: usize) -> usize {
    let mut rows: Vec<Vec<F::Element>> = vectors.iter().map(|v| unpack::<F>(v, k)).collect();
    let mut rank = 0;
    for column in 0..k {
        let Some(found) = (rank..rows.len()).find(|row| rows[*row][column] != F::ZERO) else {
            continue;
        };
        rows.swap(rank, found);
        let inverse = F::inv(rows[rank][column]).unwrap();
        let pivot: Vec<F::Element> = rows[rank].iter().map(|e| F::mul(*e, inverse)).collect();
        for row in rows.iter_mut().skip(rank + 1) {
            let factor = row[column];
            for (element, pivot) in row.iter_mut().zip(&pivot) {
                *element = F::add(*element, F::mul(factor, *pivot));
            }
        }
        rank += 1;
    }
    rank
}

fn unit<F: Field>(k: usize, block: usize) -> Vec<u8> {
    let mut vector = vec![0; vector_octets::<F>(k)];
    F::set(&mut vector, block, F::ONE);
    vector
}

/// One way of making the next packet: its kind by `kind`.
fn next_packet<F: Field>(
    encoder: &Encoder<'_, F, Rows<'_>>,
    kind: u8,
    generator: &mut CoefficientGenerator,
    sent: &[(Vec<u8>, Vec<u8>)],
) -> (Vec<u8>, Vec<u8>) {
    let k = encoder.k();
    let mut vector = vec![0xEE; encoder.vector_octets()];
    let mut payload = vec![0xEE; encoder.block_octets()];
    match kind % 5 {
        0 => encoder.random(generator, &mut vector, &mut payload).unwrap(),
        1 => {
            let block = (generator.next_u64() % u64::from(k)) as u8;
            encoder.systematic(block, &mut vector, &mut payload).unwrap();
        }
        2 => {
            generator.fill_sparse::<F>(&mut vector, k.into(), 40);
            encoder.encode(&vector, &mut payload).unwrap();
        }
        3 if !sent.is_empty() => return sent[generator.next_u64() as usize % sent.len()].clone(),
        _ => {
            vector.fill(0);
            payload.fill(0);
        }
    }
    (vector, payload)
}

fn any_arrivals<F: Field>(k: u8, block_octets: usize, kinds: &[u8], seed: u64) {
    let block_octets = block_octets.next_multiple_of(2);
    let source = octets(seed, usize::from(k) * block_octets);
    let rows = Rows::packed(&source, block_octets);
    let encoder = Encoder::<F, _>::new(&rows, block_octets).unwrap();
    let mut generator = CoefficientGenerator::new(seed);
    let mut memory = octets(seed + 1, DecoderState::<F>::memory_octets(k, block_octets));
    let mut decoder = DecoderState::<F>::new(k, block_octets).unwrap();
    let mut sent = Vec::new();
    let mut announced = HashSet::new();
    for kind in kinds {
        let (vector, payload) = next_packet(&encoder, *kind, &mut generator, &sent);
        sent.push((vector.clone(), payload.clone()));
        let vectors: Vec<Vec<u8>> = sent.iter().map(|(vector, _)| vector.clone()).collect();
        let before = decoder.rank();
        let outcome = decoder.insert(&mut memory, &vector, &payload).unwrap();
        assert_eq!(usize::from(decoder.rank()), rank::<F>(&vectors, k.into()));
        match outcome {
            Arrival::Innovative { rank, decoded } => {
                assert_eq!(rank, before + 1);
                assert!(decoded.iter().all(|block| announced.insert(block)));
            }
            Arrival::Redundant => assert_eq!(decoder.rank(), before),
        }
        for block in 0..k {
            let mut with_unit = vectors.clone();
            with_unit.push(unit::<F>(k.into(), block.into()));
            let in_span = rank::<F>(&with_unit, k.into()) == usize::from(decoder.rank());
            assert_eq!(decoder.decodable().contains(block), in_span);
            assert_eq!(announced.contains(&block), in_span);
            let mut output = vec![0; block_octets];
            match decoder.block_into(&memory, block, &mut output) {
                Ok(()) => assert_eq!(output, rows.get(block.into())),
                Err(error) => assert_eq!((error, in_span), (RlncError::NotDecodable, false)),
            }
        }
    }
    let mut output = vec![0x77; source.len()];
    let given =
        decoder.blocks_into(&memory, &mut RowsMut::packed(&mut output, block_octets)).unwrap();
    for (block, row) in output.chunks(block_octets).enumerate() {
        if given.contains(block as u8) {
            assert_eq!(row, rows.get(block));
        } else {
            assert!(row.iter().all(|octet| *octet == 0x77));
        }
    }
}

/// A source, a chain of recoders that each hold a part, and a decoder at the end.
fn chain<F: Field>(k: u8, block_octets: usize, hops: usize, seed: u64) {
    let block_octets = block_octets.next_multiple_of(2);
    let source = octets(seed, usize::from(k) * block_octets);
    let rows = Rows::packed(&source, block_octets);
    let encoder = Encoder::<F, _>::new(&rows, block_octets).unwrap();
    let mut generator = CoefficientGenerator::new(seed);
    let octets_needed = RecoderState::<F>::memory_octets(k, block_octets);
    let mut nodes: Vec<(RecoderState<F>, Vec<u8>)> = (0..hops)
        .map(|_| (RecoderState::new(k, block_octets).unwrap(), vec![0xA5; octets_needed]))
        .collect();
    let mut memory = vec![0xA5; DecoderState::<F>::memory_octets(k, block_octets)];
    let mut decoder = DecoderState::<F>::new(k, block_octets).unwrap();
    let vector_len = encoder.vector_octets();
    let mut rounds = 0;
    while !decoder.is_complete() {
        rounds += 1;
        assert!(rounds < 40 + 30 * usize::from(k), "{} never decodes", F::NAME);
        let mut vector = vec![0; vector_len];
        let mut payload = vec![0; block_octets];
        encoder.random(&mut generator, &mut vector, &mut payload).unwrap();
        for (node, memory) in &mut nodes {
            node.insert(memory, &vector, &payload).unwrap();
            let mut packet = vec![0; vector_len + block_octets];
            node.recode_packet_random(memory, &mut generator, &mut packet).unwrap();
            vector.copy_from_slice(&packet[..vector_len]);
            payload.copy_from_slice(&packet[vector_len..]);
            assert!(vector.iter().any(|octet| *octet != 0));
        }
        // Whatever came out is the combination that its vector says.
        let mut expected = vec![0; block_octets];
        encoder.encode(&vector, &mut expected).unwrap();
        assert_eq!(payload, expected);
        decoder.insert(&mut memory, &vector, &payload).unwrap();
    }
    let mut output = vec![0; source.len()];
    decoder.blocks_into(&memory, &mut RowsMut::packed(&mut output, block_octets)).unwrap();
    assert_eq!(output, source);
}

fn wrong_input<F: Field>(k: u8, block_octets: usize, wrong: usize, seed: u64) {
    let block_octets = block_octets.next_multiple_of(2);
    let vector_len = vector_octets::<F>(k.into());
    let mut memory = octets(seed, DecoderState::<F>::memory_octets(k, block_octets));
    let mut decoder = DecoderState::<F>::new(k, block_octets).unwrap();
    let vector = unit::<F>(k.into(), 0);
    let payload = octets(seed, block_octets);
    let before = memory.clone();
    let mut expect = |vector: &[u8], payload: &[u8], error| {
        assert_eq!(decoder.insert(&mut memory, vector, payload), Err(error));
        assert_eq!(decoder.rank(), 0);
    };
    let other = octets(seed, if wrong == vector_len { wrong + 1 } else { wrong });
    expect(&other, &payload, RlncError::VectorLength);
    let other = octets(seed, if wrong == block_octets { wrong + 1 } else { wrong });
    expect(&vector, &other, RlncError::PayloadLength);
    if !(usize::from(k) * F::BITS as usize).is_multiple_of(8) {
        let mut padded = vector.clone();
        *padded.last_mut().unwrap() |= 1;
        expect(&padded, &payload, RlncError::VectorPadding);
    }
    assert_eq!(memory, before);
    let short = memory.len() - 1 - wrong % memory.len().min(8);
    assert_eq!(
        decoder.insert(&mut memory[..short / 2], &vector, &payload),
        Err(RlncError::MemoryTooSmall)
    );
    assert_eq!(decoder.rank(), 0);
    assert_eq!(
        decoder.block_into(&memory, k, &mut vec![0; block_octets]),
        Err(RlncError::NoSuchBlock)
    );
    let nothing = decoder.recoder().recode(&memory, &[], &mut vector.clone(), &mut payload.clone());
    assert_eq!(nothing, Err(RlncError::NothingHeld));

    decoder.insert(&mut memory, &vector, &payload).unwrap();
    let recoder = decoder.recoder();
    let none = vec![0; vector_octets::<F>(1)];
    let mut packet = vec![0; vector_len + block_octets];
    assert_eq!(recoder.recode_packet(&memory, &none, &mut packet), Err(RlncError::ZeroVector));
    assert_eq!(
        recoder.recode_packet(&memory, &[0; 9], &mut packet),
        Err(RlncError::CoefficientCount)
    );
    let one = unit::<F>(1, 0);
    assert_eq!(
        recoder.recode_packet(&memory, &one, &mut packet[1..]),
        Err(RlncError::OutputLength)
    );
    assert_eq!(recoder.recode_packet(&memory, &one, &mut packet), Ok(()));
    assert_eq!(packet, [vector, payload].concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn ranks_and_blocks_are_right_after_every_arrival(
        field in 0..5usize, k in 1u8..12, block_octets in 1usize..70, kinds in prop::collection::vec(any::<u8>(), 1..24), seed: u32,
    ) {
        with_field!(FIELDS[field], any_arrivals(k, block_octets, &kinds, seed.into()));
    }

    #[test]
    fn what_passes_through_recoders_decodes(
        field in 0..5usize, k in 1u8..40, block_octets in 1usize..200, hops in 0usize..4, seed: u32,
    ) {
        with_field!(FIELDS[field], chain(k, block_octets, hops, seed.into()));
    }

    #[test]
    fn wrong_input_changes_nothing(
        field in 0..5usize, k in 1u8..=255, block_octets in 1usize..90, wrong in 0usize..600, seed: u32,
    ) {
        with_field!(FIELDS[field], wrong_input(k, block_octets, wrong, seed.into()));
    }

    #[test]
    fn any_k_rows_of_a_cauchy_matrix_are_independent(k in 1u8..100, picks in prop::collection::vec(any::<u16>(), 100)) {
        let rows = 256 - usize::from(k);
        let mut left: Vec<usize> = (0..rows).collect();
        let mut elimination = Elimination::<Gf256>::new(k).unwrap();
        let mut memory = vec![0xA5; Elimination::<Gf256>::memory_octets(k)];
        let mut vector = vec![0; k.into()];
        for pick in picks.iter().take(k.into()) {
            let row = left.swap_remove(usize::from(*pick) % left.len());
            cauchy_row::<Gf256>(k, row, &mut vector).unwrap();
            prop_assert!(vector.iter().all(|c| *c != 0));
            elimination.insert(&mut memory, &vector).unwrap();
        }
        prop_assert!(elimination.is_complete());
        prop_assert_eq!(cauchy_row::<Gf256>(k, rows, &mut vector), Err(RlncError::FieldTooSmall));
    }
}

#[test]
fn a_batch_is_the_same_packets() {
    fn check<F: Field>(k: u8, packets: usize, block_octets: usize) {
        let source = octets(4, usize::from(k) * block_octets);
        let rows = Rows::packed(&source, block_octets);
        let encoder = Encoder::<F, _>::new(&rows, block_octets).unwrap();
        let vector_len = encoder.vector_octets();
        let mut vectors = vec![0; packets * vector_len];
        let mut generator = CoefficientGenerator::new(2);
        for vector in vectors.chunks_mut(vector_len) {
            generator.fill_non_zero::<F>(vector, k.into());
        }
        let mut payloads = vec![0; packets * block_octets];
        let mut outputs = RowsMut::packed(&mut payloads, block_octets);
        encoder.batch(&Rows::packed(&vectors, vector_len), &mut outputs).unwrap();
        for (payload, vector) in payloads.chunks(block_octets).zip(vectors.chunks(vector_len)) {
            let mut alone = vec![0; block_octets];
            encoder.encode(vector, &mut alone).unwrap();
            assert_eq!(payload, alone);
        }
        let mut outputs = RowsMut::packed(&mut payloads, block_octets);
        let fewer = Rows::packed(&vectors, vector_len).first(packets - 1);
        assert_eq!(encoder.batch(&fewer, &mut outputs), Err(RlncError::CoefficientCount));
    }
    for field in FIELDS {
        for (k, packets, block_octets) in [(3, 1, 10), (16, 17, 476), (64, 9, 1400), (255, 3, 64)] {
            with_field!(field, check(k, packets, block_octets));
        }
    }
}

#[test]
fn every_size_decodes_in_every_field() {
    fn sizes<F: Field>() {
        for k in [1, 2, 63, 64, 65, 127, 128, 129, 191, 254, 255] {
            chain::<F>(k, 6, 0, k.into());
        }
    }
    for field in FIELDS {
        with_field!(field, sizes());
    }
}

#[test]
fn the_first_rows_of_a_source_matrix_are_independent() {
    fn check<F: Field>(k: u8) {
        let rows = usize::from(k) + 4;
        let octets = vector_octets::<F>(k.into());
        let mut matrix = vec![0; rows * octets];
        let mut memory = vec![0xA5; Elimination::<F>::memory_octets(k)];
        let mut generator = CoefficientGenerator::new(k.into());
        source_matrix::<F>(
            k,
            &mut RowsMut::packed(&mut matrix, octets),
            &mut generator,
            &mut memory,
        )
        .unwrap();
        let vectors: Vec<Vec<u8>> = matrix.chunks(octets).map(<[u8]>::to_vec).collect();
        assert_eq!(rank::<F>(&vectors[..k.into()], k.into()), usize::from(k));
        for vector in &vectors {
            let zeros = unpack::<F>(vector, k.into()).iter().filter(|e| **e == F::ZERO).count();
            assert!(if F::BITS == 1 { zeros < k.into() } else { zeros == 0 });
        }
    }
    for field in FIELDS {
        for k in [1, 2, 3, 12, 16, 130, 255] {
            with_field!(field, check(k));
        }
    }
}

#[test]
fn seeds_give_the_coefficients_of_the_specification() {
    // Computed apart from this crate, from the text of the specification.
    let vectors = [
        ("00000001", "gf2", "01011011111001100111"),
        ("00000001", "gf2_4", "5be676b71"),
        ("00000001", "gf2_8_11b", "5be676b7136ca3146d635c6c"),
        ("00000001", "gf2_16", "5be676b7136ca314"),
        ("deadbeef", "gf2", "10001111100011110011"),
        ("deadbeef", "gf2_4", "8f8f3cd7f"),
        ("deadbeef", "gf2_8_11b", "8f8f3cd70f80581c443678c5"),
        ("deadbeef", "gf2_16", "8f8f3cd70f80581c"),
        ("0000000000000001", "gf2", "01001010010101110100"),
        ("0000000000000001", "gf2_4", "4a5743e54"),
        ("0000000000000001", "gf2_8_11d", "4a5743e548970b8dbf1f1c35"),
        ("0000000000000001", "gf2_16", "4a5743e548970b8d"),
        ("0123456789abcdef", "gf2", "00101010110111001001"),
        ("0123456789abcdef", "gf2_4", "2adc9494f"),
        ("0123456789abcdef", "gf2_8_11b", "2adc9494fd54b8af7a3afcd2"),
        ("0123456789abcdef", "gf2_16", "2adc9494fd54b8af"),
        // The stream bc79ce00138ea50b... has a zero, which is left out.
        ("00000004", "gf2_8_11b", "bc79ce138ea50b09c2f987b0dd018d903879d163"),
    ];
    fn check<F: Field>(seed: &[u8], digits: &str) {
        let mut generator = match seed.len() {
            4 => CoefficientGenerator::from_seed_4(seed.try_into().unwrap()),
            _ => CoefficientGenerator::from_seed_8(seed.try_into().unwrap()),
        };
        let expected = hex_field::<F>(digits);
        let mut vector = vec![0xEE; vector_octets::<F>(expected.len())];
        generator.fill_non_zero::<F>(&mut vector, expected.len());
        assert_eq!(unpack::<F>(&vector, expected.len()), expected);
    }
    for (seed, field, digits) in vectors {
        with_field!(field, check(&hex::decode(seed).unwrap(), digits));
    }
}

#[test]
fn sparse_vectors_have_the_density_asked_for() {
    fn check<F: Field>() {
        let mut generator = CoefficientGenerator::new(8);
        let mut vector = vec![0; vector_octets::<F>(200)];
        let mut used = 0;
        for _ in 0..500 {
            generator.fill_sparse::<F>(&mut vector, 200, 32);
            let count = unpack::<F>(&vector, 200).iter().filter(|e| **e != F::ZERO).count();
            assert!(count > 0);
            used += count;
        }
        // An eighth of 100,000, whose standard deviation is 105.
        assert!((12_000..13_000).contains(&used), "{}: {used}", F::NAME);
    }
    for field in FIELDS {
        with_field!(field, check());
    }
}

#[test]
fn combinations_do_not_repeat() {
    fn check<F: Field>(held: u8, count: usize) {
        let mut combinations = Combinations::new(3);
        let mut seen = HashSet::new();
        let mut coefficients = vec![0; vector_octets::<F>(held.into())];
        for _ in 0..count {
            combinations.next::<F>(held, &mut coefficients);
            let elements = unpack::<F>(&coefficients, held.into());
            if F::BITS == 1 {
                assert!(elements.contains(&F::ONE));
            } else {
                assert!(elements.iter().all(|element| *element != F::ZERO));
                // The first is one, so no two different ones are multiples of one another.
                assert_eq!(elements[0], F::ONE);
            }
            assert!(seen.insert(coefficients.clone()), "{} {held}", F::NAME);
        }
    }
    check::<Gf256>(1, 1);
    check::<Gf256>(2, 255);
    check::<Gf256>(3, 255 * 255);
    check::<Gf256>(9, 50_000);
    check::<Gf256>(255, 2_000);
    check::<heddle_core::gf::Gf2>(1, 1);
    check::<heddle_core::gf::Gf2>(5, 31);
    check::<heddle_core::gf::Gf2>(70, 5_000);
    check::<heddle_core::gf::Gf16>(3, 225);
    check::<heddle_core::gf::Gf65536>(2, 65_535);
}

#[test]
fn as_many_generations_decode_as_theory_says() {
    /// Generations out of `count` that K random packets do not decode, vectors uniform over the field.
    fn failures<F: Field>(k: u8, count: u32) -> u32 {
        let mut generator = CoefficientGenerator::new(u64::from(k) << 8 | u64::from(F::BITS));
        let mut memory = vec![0; Elimination::<F>::memory_octets(k)];
        let mut vector = vec![0; vector_octets::<F>(k.into())];
        (0..count)
            .filter(|_| {
                let mut elimination = Elimination::<F>::new(k).unwrap();
                for _ in 0..k {
                    generator.fill::<F>(&mut vector, k.into());
                    elimination.insert(&mut memory, &vector).unwrap();
                }
                !elimination.is_complete()
            })
            .count() as u32
    }
    fn check<F: Field>(k: u8) {
        const COUNT: u32 = 100_000;
        let (q, k_f) = ((1u64 << F::BITS) as f64, f64::from(k));
        // The chance that a random matrix is invertible, given that no row is zero.
        let invertible: f64 = (1..=i32::from(k)).map(|i| 1.0 - q.powi(-i)).product();
        let expected = 1.0 - invertible / (1.0 - q.powf(-k_f)).powf(k_f);
        let measured = f64::from(failures::<F>(k, COUNT)) / f64::from(COUNT);
        println!("{:<12} K={k:<3} fails {measured:.5}, in theory {expected:.5}", F::NAME);
        let deviation = (expected * (1.0 - expected) / f64::from(COUNT)).sqrt();
        assert!((measured - expected).abs() < 5.0 * deviation + 1e-5, "{} K={k}", F::NAME);
    }
    for field in FIELDS {
        for k in [3, 16] {
            with_field!(field, check(k));
        }
    }
}
