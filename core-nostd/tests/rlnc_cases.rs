//! Decoding and recoding against cases that were computed elsewhere.

#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

mod common;

use common::{cases, hex_field, number, octets, pack, text, unpack, with_field};
use heddle_core::gf::{Field, RowsMut};
use heddle_core::rlnc::{
    Arrival, Decoder, DecoderState, Elimination, Recoder, RecoderState, RlncError, recode,
    vector_octets,
};
use serde_json::Value;

/// Fills memory with what no state may rely on.
fn dirty(octets: usize) -> Vec<u8> {
    vec![0xA5; octets]
}

fn list<'a>(case: &'a Value, key: &str) -> &'a [Value] {
    case[key].as_array().map_or(&[], Vec::as_slice)
}

fn sources(case: &Value) -> Vec<Vec<u8>> {
    list(case, "source").iter().map(|block| hex::decode(block.as_str().unwrap()).unwrap()).collect()
}

fn numbers(case: &Value, key: &str) -> Vec<u8> {
    list(case, key).iter().map(|n| n.as_u64().unwrap() as u8).collect()
}

#[test]
fn decode() {
    fn check<F: Field>(case: &Value) {
        let (k, block_len) = (number(case, "k") as u8, number(case, "block_len"));
        let source = sources(case);
        let mut memory = dirty(DecoderState::<F>::memory_octets(k, block_len));
        let mut decoder = Decoder::<F>::new(k, block_len, &mut memory).unwrap();
        let mut recoder_memory = dirty(RecoderState::<F>::memory_octets(k, block_len));
        let mut recoder = Recoder::<F>::new(k, block_len, &mut recoder_memory).unwrap();
        let mut vectors_memory = dirty(Elimination::<F>::memory_octets(k));
        let mut vectors = Elimination::<F>::new(k).unwrap();
        for arrival in list(case, "arrivals") {
            let vector = pack::<F>(&hex_field::<F>(text(arrival, "vector")));
            let payload = octets(arrival, "payload");
            let outcome = decoder.insert(&vector, &payload).unwrap();
            assert_eq!(recoder.insert(&vector, &payload), Ok(outcome));
            assert_eq!(vectors.insert(&mut vectors_memory, &vector), Ok(outcome));
            let expected = numbers(arrival, "decoded");
            match outcome {
                Arrival::Innovative { rank, decoded } => {
                    assert_eq!(arrival["innovative"], true, "{}", text(case, "id"));
                    assert_eq!(usize::from(rank), number(arrival, "rank"));
                    assert_eq!(decoded.iter().collect::<Vec<_>>(), expected);
                    for block in expected {
                        let mut output = vec![0xEE; block_len];
                        decoder.block_into(block, &mut output).unwrap();
                        assert_eq!(output, source[usize::from(block)]);
                    }
                }
                Arrival::Redundant => {
                    assert_eq!(arrival["innovative"], false, "{}", text(case, "id"));
                    assert!(expected.is_empty());
                }
            }
            assert_eq!(usize::from(decoder.state().rank()), number(arrival, "rank"));
        }
        assert_eq!(usize::from(decoder.state().rank()), number(case, "final_rank"));
        let decodable = decoder.state().decodable();
        let mut expected = numbers(case, "final_decoded");
        expected.sort_unstable();
        assert_eq!(decodable.iter().collect::<Vec<_>>(), expected);

        let mut output = vec![0xEE; usize::from(k) * block_len];
        let given = decoder.blocks_into(&mut RowsMut::packed(&mut output, block_len));
        assert_eq!(given, Ok(decodable));
        for block in 0..k {
            let row = &output[usize::from(block) * block_len..][..block_len];
            let mut alone = vec![0xEE; block_len];
            let outcome = decoder.block_into(block, &mut alone);
            if decodable.contains(block) {
                assert_eq!(row, source[usize::from(block)]);
                assert_eq!(alone, source[usize::from(block)]);
            } else {
                assert_eq!(outcome, Err(RlncError::NotDecodable));
                assert!(row.iter().chain(&alone).all(|octet| *octet == 0xEE));
            }
        }
    }
    for case in cases("rlnc/decode.jsonl") {
        with_field!(text(&case, "field"), check(&case));
    }
}

#[test]
fn recoding() {
    fn check<F: Field>(case: &Value) {
        let (k, block_len) = (number(case, "k"), number(case, "block_len"));
        let received = list(case, "received");
        let vectors: Vec<Vec<u8>> = received
            .iter()
            .map(|packet| pack::<F>(&hex_field::<F>(text(packet, "vector"))))
            .collect();
        let payloads: Vec<Vec<u8>> =
            received.iter().map(|packet| octets(packet, "payload")).collect();
        let mut memory = dirty(RecoderState::<F>::memory_octets(k as u8, block_len));
        let mut recoder = Recoder::<F>::new(k as u8, block_len, &mut memory).unwrap();
        for (vector, payload) in vectors.iter().zip(&payloads) {
            recoder.insert(vector, payload).unwrap();
        }
        let all_held = usize::from(recoder.state().rank()) == received.len();
        let vectors: Vec<&[u8]> = vectors.iter().map(Vec::as_slice).collect();
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        for output in list(case, "outputs") {
            let coefficients = pack::<F>(&hex_field::<F>(text(output, "coefficients")));
            let mut vector = vec![0xEE; vector_octets::<F>(k)];
            let mut payload = vec![0xEE; block_len];
            let outcome = recode::<F>(
                &coefficients,
                vectors.as_slice(),
                payloads.as_slice(),
                &mut vector,
                &mut payload,
            );
            if output["send"] == false {
                assert_eq!(outcome, Err(RlncError::ZeroVector), "{}", text(case, "id"));
            } else {
                assert_eq!(outcome, Ok(()), "{}", text(case, "id"));
                assert_eq!(unpack::<F>(&vector, k), hex_field::<F>(text(output, "vector")));
                assert_eq!(payload, octets(output, "payload"));
            }
            if all_held {
                let (first_vector, first_payload) = (vector, payload);
                let mut vector = vec![0xEE; vector_octets::<F>(k)];
                let mut payload = vec![0xEE; block_len];
                assert_eq!(recoder.recode(&coefficients, &mut vector, &mut payload), outcome);
                if outcome.is_ok() {
                    assert_eq!((vector, payload), (first_vector, first_payload));
                }
            }
        }
    }
    for case in cases("rlnc/recode.jsonl") {
        with_field!(text(&case, "field"), check(&case));
    }
}

#[test]
fn hostile() {
    fn check<F: Field>(case: &Value) {
        let (k, block_len) = (number(case, "k") as u8, number(case, "block_len"));
        if case["create"] == "reject" {
            let reason = reason(text(case, "reason"));
            assert_eq!(DecoderState::<F>::new(k, block_len).unwrap_err(), reason);
            assert_eq!(RecoderState::<F>::new(k, block_len).unwrap_err(), reason);
            assert_eq!(DecoderState::<F>::memory_octets(k, block_len), 0);
            return;
        }
        let source = sources(case);
        let mut memory = dirty(DecoderState::<F>::memory_octets(k, block_len));
        let mut decoder = DecoderState::<F>::new(k, block_len).unwrap();
        for arrival in list(case, "arrivals") {
            // As octets, since a wrong vector need not be whole symbols.
            let (vector, payload) = (octets(arrival, "vector"), octets(arrival, "payload"));
            let before = memory.clone();
            let outcome = decoder.insert(&mut memory, &vector, &payload);
            match text(arrival, "verdict") {
                "innovative" => {
                    let Ok(Arrival::Innovative { decoded, .. }) = outcome else {
                        panic!("{outcome:?} for {arrival}");
                    };
                    assert_eq!(decoded.iter().collect::<Vec<_>>(), numbers(arrival, "decoded"));
                }
                "redundant" => assert_eq!(outcome, Ok(Arrival::Redundant)),
                "reject" => {
                    assert_eq!(outcome, Err(reason(text(arrival, "reason"))), "{arrival}");
                    assert_eq!(memory, before);
                }
                other => panic!("a verdict that this test does not know: {other}"),
            }
            assert_eq!(usize::from(decoder.rank()), number(arrival, "rank"));
        }
        assert_eq!(usize::from(decoder.rank()), number(case, "final_rank"));
        for block in decoder.decodable().iter() {
            let mut output = vec![0; block_len];
            decoder.block_into(&memory, block, &mut output).unwrap();
            assert_eq!(output, source[usize::from(block)]);
        }
    }
    fn reason(name: &str) -> RlncError {
        match name {
            "k_zero" => RlncError::KZero,
            "block_len_zero" => RlncError::BlockLenZero,
            "vector_length" => RlncError::VectorLength,
            "payload_length" => RlncError::PayloadLength,
            other => panic!("a reason that this test does not know: {other}"),
        }
    }
    for case in cases("rlnc/hostile.jsonl") {
        with_field!(text(&case, "field"), check(&case));
    }
}
