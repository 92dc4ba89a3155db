//! The cases of named-data packets: what is accepted, as what, and why the others are dropped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::ndn::{
    Data, Element, Interest, Link, LpHeader, Name, NdnError, Packet, Partial, Payload, Reassembler,
    pass_hop, reassembly_octets,
};
use heddle_core::node::Instant;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

fn lines<T: for<'d> Deserialize<'d>>(file: &str) -> Vec<T> {
    let path = format!("{}/tests/cases/ndn/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn unhex(case: &Value, field: &str) -> Vec<u8> {
    hex::decode(case[field].as_str().unwrap()).unwrap()
}

/// Compares the fields that the case gives.
fn compare(case: &Value, found: &Value) {
    for (field, value) in found.as_object().unwrap() {
        if let Some(expected) = case.get(field) {
            assert_eq!(value, expected, "{field} of {}", case["id"]);
        }
    }
}

fn name_fields(name: Name<'_>) -> Value {
    json!({
        "name": name.to_string(),
        "name_tlv": hex::encode(name.value()),
        "components": name.components().count(),
    })
}

fn interest_fields(interest: &Interest<'_>) -> Value {
    let hints: Option<Vec<_>> =
        interest.forwarding_hint.map(|names| names.map(|name| name.to_string()).collect());
    json!({
        "nonce": interest.nonce.map(hex::encode),
        "lifetime_ms": interest.lifetime_ms,
        "hop_limit": interest.hop_limit,
        "can_be_prefix": interest.can_be_prefix,
        "must_be_fresh": interest.must_be_fresh,
        "forwarding_hint": hints,
        "app_params_len": interest.parameters.map(<[u8]>::len),
        "signed": interest.is_signed,
    })
}

fn data_fields(data: &Data<'_>) -> Value {
    json!({
        "content_type": data.content_type,
        "freshness_ms": data.freshness_ms,
        "final_block_id": data.final_block_id.map(|component| component.to_string()),
        "content_len": data.content.map(<[u8]>::len),
    })
}

/// The link header in the words of the cases, without what is absent.
fn lp_fields(header: &LpHeader<'_>, payload: &Payload<'_>) -> Value {
    let acks: Vec<_> = header.acks().collect();
    let fragment_len = match payload {
        Payload::Fragment(fragment) => Some(fragment.len()),
        _ => None,
    };
    let mut fields = json!({
        "sequence": header.sequence,
        "frag_index": header.frag_index,
        "frag_count": header.frag_count,
        "pit_token": header.pit_token.map(hex::encode),
        "nack_reason": header.nack.map(|reason| reason.0),
        "congestion_mark": header.congestion_mark,
        "acks": (!acks.is_empty()).then_some(acks),
        "tx_sequence": header.tx_sequence,
        "non_discovery": header.non_discovery.then_some(true),
        "prefix_announcement_len": header.prefix_announcement.map(<[u8]>::len),
        "fragment_len": fragment_len,
        "idle": matches!(payload, Payload::Idle).then_some(true),
    });
    fields.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    fields
}

/// Decodes the case's octets as its layer and compares what they say.
fn decode(case: &Value) -> Result<(), NdnError> {
    let octets = unhex(case, "hex");
    match case["layer"].as_str().unwrap() {
        "tlv" => {
            let (element, rest) = Element::first(&octets)?;
            if !rest.is_empty() {
                return Err(NdnError::TrailingBytes);
            }
            compare(case, &json!({"tlv": {"type": element.kind, "length": element.value.len()}}));
        }
        "name" => compare(case, &name_fields(Name::parse(&octets)?)),
        _ => {
            let link = if case["link"] == "ethernet" { Link::Ethernet } else { Link::Datagram };
            let packet = Packet::parse(&octets, link)?;
            if let Some(name) = packet.name() {
                compare(case, &name_fields(name));
            }
            let carries = match &packet.payload {
                Payload::Interest(interest) => {
                    pass_hop(interest)?;
                    compare(case, &interest_fields(interest));
                    "interest"
                }
                Payload::Nack(_, interest) => {
                    compare(case, &interest_fields(interest));
                    "nack"
                }
                Payload::Data(data) => {
                    compare(case, &data_fields(data));
                    "data"
                }
                Payload::Fragment(_) => "fragment",
                Payload::Idle => "idle",
            };
            let expected = case.get("carries").unwrap_or(&case["layer"]);
            assert_eq!(carries, expected, "{}", case["id"]);
            compare(case, &json!({"lp": lp_fields(&packet.link, &packet.payload)}));
        }
    }
    Ok(())
}

fn run(file: &str, count: usize) {
    let cases: Vec<Value> = lines(file);
    assert_eq!(cases.len(), count, "cases in {file}");
    for case in &cases {
        match (decode(case), case["verdict"].as_str().unwrap()) {
            (Ok(()), "accept") => {}
            (Err(error), "drop") => {
                let reason = error.name().strip_prefix("ndn_").unwrap();
                assert_eq!(reason, case["reason"], "{}", case["id"]);
            }
            (found, verdict) => panic!("{}: {found:?} instead of {verdict}", case["id"]),
        }
    }
}

#[test]
fn elements() {
    run("tlv", 20);
}

#[test]
fn names() {
    run("name", 26);
}

#[test]
fn interests() {
    run("interest", 62);
}

#[test]
fn data() {
    run("data", 27);
}

#[test]
fn link_packets() {
    run("lp", 53);
}

#[test]
fn truncated_packets() {
    run("truncated", 28);
}

/// Every packet of the cases, whole and cut and with each bit flipped, is decoded to an end.
#[test]
fn nothing_that_is_cut_or_flipped_panics() {
    for file in ["interest", "data", "lp"] {
        for case in lines::<Value>(file) {
            let octets = unhex(&case, "hex");
            if octets.len() > 200 {
                continue;
            }
            for len in 0..octets.len() {
                let _ = Packet::parse(&octets[..len], Link::Datagram);
            }
            for bit in 0..octets.len() * 8 {
                let mut octets = octets.clone();
                octets[bit / 8] ^= 1 << (bit % 8);
                if let Ok(packet) = Packet::parse(&octets, Link::Ethernet) {
                    let _ = packet.name().map(|name| name.to_string());
                    let _ = packet.link.acks().count();
                }
            }
        }
    }
}

#[test]
fn reassembly() {
    let cases: Vec<Value> = lines("reassembly");
    assert_eq!(cases.len(), 11);
    for case in &cases {
        let mut partials = vec![Partial::vacant(); 4];
        let mut memory = vec![0x5a; reassembly_octets(4)];
        let mut reassembler =
            Reassembler::new(&mut partials, &mut memory, Duration::from_millis(500)).unwrap();
        let mut delivered = Vec::new();
        for fragment in case["hexes"].as_array().unwrap() {
            let octets = hex::decode(fragment.as_str().unwrap()).unwrap();
            let Ok(packet) = Packet::parse(&octets, Link::Datagram) else { continue };
            let whole = match packet.payload {
                Payload::Fragment(piece) => {
                    let taken = reassembler.take(Instant::ZERO, 1, &packet.link, piece);
                    taken.ok().flatten()
                }
                payload => Some(payload),
            };
            delivered.extend(whole.and_then(|payload| payload.octets().map(hex::encode)));
            if let Some(token) = case.get("pit_token")
                && packet.link.index() == 0
            {
                assert_eq!(
                    packet.link.pit_token.map(hex::encode),
                    Some(token.as_str().unwrap().into())
                );
            }
        }
        assert_eq!(json!(delivered), case["delivers"], "{}", case["id"]);
    }
}
