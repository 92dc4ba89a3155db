//! The sliding window over lossy, reordering links.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

mod common;

use common::with_field;
use heddle_core::gf::{Field, Gf256};
use heddle_core::rlnc::{
    CoefficientGenerator, RlncError, WindowArrival, WindowDecoder, WindowEncoder, vector_octets,
};
use proptest::prelude::*;

const FIELDS: [&str; 5] = ["gf2", "gf2_4", "gf2_8_11b", "gf2_8_11d", "gf2_16"];
const BLOCK: usize = 22;

fn block(number: u32) -> Vec<u8> {
    let mut generator = CoefficientGenerator::new(number.into());
    (0..BLOCK).map(|_| generator.next_u64() as u8).collect()
}

enum Packet {
    Source(u32),
    Repair { first: u32, held: u8, vector: Vec<u8>, payload: Vec<u8> },
}

/// Sends `blocks` blocks with a repair packet after each `interval`, and loses and reorders as `fate` says.
fn stream<F: Field>(window: u8, blocks: u32, interval: u32, fate: &[u8], start: u32, seed: u64) {
    let mut memory = vec![0; WindowEncoder::<F>::memory_octets(window, BLOCK)];
    let mut encoder = WindowEncoder::<F>::new(window, BLOCK, start, &mut memory).unwrap();
    let mut generator = CoefficientGenerator::new(seed);
    let mut packets = Vec::new();
    for index in 0..blocks {
        let number = start.wrapping_add(index);
        assert_eq!(encoder.push(&block(number)), Ok(number));
        packets.push(Packet::Source(number));
        if (index + 1) % interval == 0 {
            let (first, held) = encoder.held();
            let mut vector = vec![0; vector_octets::<F>(held.into())];
            generator.fill_non_zero::<F>(&mut vector, held.into());
            let mut payload = vec![0; BLOCK];
            encoder.repair(&vector, &mut payload).unwrap();
            packets.push(Packet::Repair { first, held, vector, payload });
        }
    }
    let mut memory = vec![0xA5; WindowDecoder::<F>::memory_octets(window, BLOCK)];
    let mut decoder = WindowDecoder::<F>::new(window, BLOCK, start, &mut memory).unwrap();
    // A packet is lost, or comes late by a few places.
    let mut order: Vec<(usize, &Packet)> = Vec::new();
    let mut kept = 0;
    for (index, packet) in packets.iter().enumerate() {
        let fate = fate[index % fate.len()];
        if !fate.is_multiple_of(4) {
            kept += 1;
            order.push((index + usize::from(fate >> 6), packet));
        }
    }
    order.sort_by_key(|(place, _)| *place);
    let (mut given, mut last) = (0u64, None);
    let mut output = vec![0; BLOCK];
    let mut innovative = 0;
    for (_, packet) in order {
        let arrival = match packet {
            Packet::Source(number) => decoder.source(*number, &block(*number)),
            Packet::Repair { first, held, vector, payload } => {
                decoder.repair(*first, *held, vector, payload)
            }
        };
        innovative += u32::from(arrival.unwrap() == WindowArrival::Innovative);
        while let Some(number) = decoder.next(&mut output).unwrap() {
            assert_eq!(output, block(number));
            let in_order =
                last.is_none_or(|last: u32| number.wrapping_sub(last) < 1 << 31 && number != last);
            assert!(in_order);
            last = Some(number);
            given += 1;
        }
    }
    while decoder.skip() {
        while let Some(number) = decoder.next(&mut output).unwrap() {
            assert_eq!(output, block(number));
            given += 1;
        }
    }
    assert!(innovative <= kept);
    assert!(given + decoder.lost() <= blocks.into());
    let end = decoder.next_number().wrapping_sub(start);
    assert_eq!(given + decoder.lost(), u64::from(end));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn whatever_arrives_is_given_in_order_and_right(
        field in 0..5usize, window in 1u8..40, blocks in 1u32..120, interval in 1u32..6,
        fate in prop::collection::vec(any::<u8>(), 1..60), start: u32, seed: u32,
    ) {
        with_field!(FIELDS[field], stream(window, blocks, interval, &fate, start, seed.into()));
    }
}

#[test]
fn the_numbers_wrap() {
    for start in [u32::MAX, u32::MAX - 7, u32::MAX - 100] {
        stream::<Gf256>(7, 200, 2, &[1, 2, 0, 3, 65, 1, 130], start, 9);
    }
}

/// As many repair packets as losses within the window restore all of them.
#[test]
fn repair_restores_losses_within_the_window() {
    fn check<F: Field>(window: u8) {
        for lost in 1..=usize::from(window).min(6) {
            let mut memory = vec![0; WindowEncoder::<F>::memory_octets(window, BLOCK)];
            let mut encoder = WindowEncoder::<F>::new(window, BLOCK, 5, &mut memory).unwrap();
            let mut memory = vec![0xA5; WindowDecoder::<F>::memory_octets(window, BLOCK)];
            let mut decoder = WindowDecoder::<F>::new(window, BLOCK, 5, &mut memory).unwrap();
            let mut generator = CoefficientGenerator::new(lost as u64);
            let mut output = vec![0; BLOCK];
            // Two windows without a loss first, so that blocks have been given and places used again.
            let total = 3 * u32::from(window);
            for number in 5..5 + total {
                encoder.push(&block(number)).unwrap();
                if (number as usize) + lost < (5 + total) as usize {
                    decoder.source(number, &block(number)).unwrap();
                    assert_eq!(decoder.next(&mut output), Ok(Some(number)));
                }
            }
            let (first, held) = encoder.held();
            let mut tries = 0;
            while decoder.next_number() != 5 + total {
                tries += 1;
                assert!(tries < lost + 30, "{}", F::NAME);
                let mut vector = vec![0; vector_octets::<F>(held.into())];
                generator.fill_non_zero::<F>(&mut vector, held.into());
                let mut payload = vec![0; BLOCK];
                encoder.repair(&vector, &mut payload).unwrap();
                let arrival = decoder.repair(first, held, &vector, &payload).unwrap();
                assert_ne!(arrival, WindowArrival::Late);
                while let Some(number) = decoder.next(&mut output).unwrap() {
                    assert_eq!(output, block(number));
                }
            }
            if F::BITS >= 8 {
                assert!(tries <= lost + 1);
            }
            assert_eq!(decoder.lost(), 0);
            // All is known, so more is of no use, and what comes again late is no harm.
            assert_eq!(
                decoder.source(5 + total - 1, &block(5 + total - 1)),
                Ok(WindowArrival::Redundant)
            );
            assert_eq!(decoder.source(4, &block(4)), Ok(WindowArrival::Late));
            assert_eq!(decoder.next(&mut output), Ok(None));
        }
    }
    for field in FIELDS {
        for window in [1, 2, 8, 33, 255] {
            with_field!(field, check(window));
        }
    }
}

#[test]
fn what_the_window_passes_is_counted_as_lost() {
    let mut memory = vec![0; WindowDecoder::<Gf256>::memory_octets(4, BLOCK)];
    let mut decoder = WindowDecoder::<Gf256>::new(4, BLOCK, 0, &mut memory).unwrap();
    let mut output = vec![0; BLOCK];
    decoder.source(1, &block(1)).unwrap();
    assert_eq!(decoder.next(&mut output), Ok(None));
    // Block 4 pushes block 0 out; 1 is next and known.
    decoder.source(4, &block(4)).unwrap();
    assert_eq!((decoder.lost(), decoder.next(&mut output)), (1, Ok(Some(1))));
    assert_eq!(output, block(1));
    // A far jump passes 2 and 3, which never came, and 4, which was not yet given.
    decoder.source(1000, &block(1000)).unwrap();
    assert_eq!(decoder.next_number(), 997);
    assert_eq!(decoder.lost(), 1 + 995);
    assert!(decoder.skip() && decoder.skip() && decoder.skip());
    assert_eq!(decoder.next(&mut output), Ok(Some(1000)));
    assert!(!decoder.skip());
}

#[test]
fn wrong_input_is_refused() {
    let mut memory = vec![0; WindowDecoder::<Gf256>::memory_octets(4, BLOCK)];
    assert_eq!(
        WindowDecoder::<Gf256>::new(0, BLOCK, 0, &mut memory).unwrap_err(),
        RlncError::KZero
    );
    let short = memory.len() - 1;
    assert_eq!(
        WindowDecoder::<Gf256>::new(4, BLOCK, 0, &mut memory[..short]).unwrap_err(),
        RlncError::MemoryTooSmall
    );
    let mut decoder = WindowDecoder::<Gf256>::new(4, BLOCK, 0, &mut memory).unwrap();
    let payload = block(0);
    let refused = [
        (decoder.repair(0, 0, &[], &payload), RlncError::OutsideWindow),
        (decoder.repair(0, 5, &[1; 5], &payload), RlncError::OutsideWindow),
        (decoder.repair(0, 2, &[1; 3], &payload), RlncError::VectorLength),
        (decoder.repair(0, 2, &[0; 2], &payload), RlncError::ZeroVector),
        (decoder.repair(0, 2, &[1; 2], &payload[1..]), RlncError::PayloadLength),
        (decoder.source(0, &payload[1..]), RlncError::PayloadLength),
    ];
    for (outcome, error) in refused {
        assert_eq!(outcome, Err(error));
    }
    assert_eq!(decoder.next(&mut payload.clone()[1..]), Err(RlncError::OutputLength));
    assert_eq!((decoder.next_number(), decoder.lost(), decoder.skip()), (0, 0, false));
}
