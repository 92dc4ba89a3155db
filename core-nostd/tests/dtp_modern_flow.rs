//! Parameters, tokens, connection ids and packets of DTP's `modern` suite against an implementation of its specification in another language
//! (`cases/dtp/modern_flow.py`): both write the same octets, and read out of them what was meant.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(unused_macros, unused_imports, reason = "for tests of other fields")]
mod common;

use common::{cases, octets, text};
use heddle_core::dtp::modern::{
    AckRange, FLOW_HEADER_OCTETS, Frame, FrameWriter, Frames, IdCipher, IdContent, ModernError,
    Opener, Parameters, RetryKey, Sealer, Suite, TAG_OCTETS, TrafficSecret,
};
use serde_json::Value;
use std::time::Duration;

fn array<const N: usize>(case: &Value, name: &str) -> [u8; N] {
    octets(case, name).try_into().unwrap()
}

fn long(case: &Value, name: &str) -> u64 {
    case[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {case}"))
}

fn parameters(fields: &Value) -> Parameters {
    let number = |id: &str| fields[id].as_u64();
    Parameters {
        send_to: fields.get("1").map(|_| array(fields, "1")),
        keep_alive_s: number("2").map(|value| value as u32),
        receive_window: number("3").map(|value| value as u32),
        largest_datagram: number("4").map(|value| value as u16),
        suite: number("5").map(|value| Suite::from_bit(value as u8).unwrap()),
        boundaries: fields["6"].as_bool().unwrap(),
        streams: number("7").map(|value| value as u8),
    }
}

#[test]
fn parameters_are_those_of_the_other_implementation() {
    for case in cases("dtp/modern_flow.jsonl") {
        let case = &case["parameters"];
        let meant = parameters(&case["fields"]);
        let mut buffer = [0; 2000];
        let written = meant.write(&mut buffer, 0).unwrap();
        assert_eq!(hex::encode(&buffer[..written]), text(case, "octets"));
        assert_eq!(Parameters::parse(&octets(case, "octets")), Ok(meant));
        // How much is filled up is said, not with how many PADDINGs.
        let padded = octets(case, "padded");
        assert_eq!(Parameters::parse(&padded), Ok(meant));
        assert_eq!(meant.write(&mut buffer, padded.len()), Ok(padded.len()));
        assert_eq!(Parameters::parse(&buffer[..padded.len()]), Ok(meant));
    }
}

#[test]
fn tokens_are_those_of_the_other_implementation() {
    for case in cases("dtp/modern_flow.jsonl") {
        let case = &case["token"];
        let key = RetryKey::new(array(case, "key"));
        let (seconds, port) = (long(case, "seconds"), long(case, "port") as u16);
        let (address, destination) = (array(case, "address"), array(case, "destination"));
        assert_eq!(
            hex::encode(key.token(seconds, &address, port, &destination)),
            text(case, "token")
        );
        let token = octets(case, "token");
        let verify = |seconds, port| key.verify(&token, seconds, &address, port, &destination);
        assert_eq!(verify(seconds + 10, port), Ok(()));
        assert_eq!(verify(seconds + 11, port), Err(ModernError::TokenExpired));
        assert_eq!(verify(seconds, port ^ 1), Err(ModernError::Token));
    }
}

#[test]
fn connection_ids_are_those_of_the_other_implementation() {
    for case in cases("dtp/modern_flow.jsonl") {
        let case = &case["id"];
        let cipher = IdCipher::new(&array(case, "key"));
        let content = IdContent {
            server: long(case, "server") as u16,
            slot: long(case, "slot") as u32,
            generation: long(case, "generation") as u32,
            sequence: long(case, "sequence") as u32,
        };
        assert_eq!(cipher.seal(content), array(case, "id"));
        assert_eq!(cipher.open(&array(case, "id")), Some(content));
        let mut other: [u8; 16] = array(case, "id");
        other[0] ^= 1;
        assert_eq!(cipher.open(&other), None);
    }
}

/// The ranges that an ACK among the frames tells.
fn ranges(frame: &Value) -> impl Iterator<Item = AckRange> + Clone + '_ {
    frame["ranges"].as_array().unwrap().iter().map(|range| AckRange {
        first: range[0].as_u64().unwrap(),
        last: range[1].as_u64().unwrap(),
    })
}

/// A frame but an ACK; `data` holds its octets.
fn frame<'a>(case: &Value, data: &'a [u8]) -> Frame<'a> {
    let eight = || data.try_into().unwrap();
    match text(case, "type") {
        "padding" => Frame::Padding { octets: long(case, "octets") as usize },
        "ping" => Frame::Ping,
        "data" => Frame::Data {
            stream: long(case, "stream") as u32,
            offset: long(case, "offset"),
            octets: data,
            last: case["last"].as_bool().unwrap(),
        },
        "total_window" => Frame::TotalWindow { octets: long(case, "octets") },
        "window" => {
            Frame::Window { stream: long(case, "stream") as u32, offset: long(case, "offset") }
        }
        "path_challenge" => Frame::PathChallenge(eight()),
        "path_response" => Frame::PathResponse(eight()),
        "new_id" => Frame::NewId {
            sequence: long(case, "sequence"),
            retire_before: long(case, "before"),
            id: array(case, "id"),
        },
        "keep_alive" => Frame::KeepAlive { seconds: long(case, "seconds") },
        "close" => Frame::Close { reason: long(case, "reason") },
        "reset" => Frame::Reset {
            stream: long(case, "stream") as u32,
            offset: long(case, "offset"),
            reason: long(case, "reason"),
        },
        other => panic!("no such frame: {other}"),
    }
}

#[test]
fn packets_are_those_of_the_other_implementation() {
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for case in cases("dtp/modern_flow.jsonl") {
        for case in case["packets"].as_array().unwrap() {
            let suite = Suite::from_bit(long(case, "suite") as u8).unwrap();
            let (secret, destination) = (array(case, "secret"), array(case, "destination"));
            let secret = TrafficSecret::first(&secret);
            let (number, phase) = (long(case, "number"), long(case, "phase"));
            let list = case["frames"].as_array().unwrap();
            let data: Vec<Vec<u8>> = list
                .iter()
                .map(|frame| hex::decode(frame["octets"].as_str().unwrap_or("")).unwrap())
                .collect();

            let mut buffer = [0; 2000];
            let mut writer = FrameWriter::new(&mut buffer[FLOW_HEADER_OCTETS..]);
            for (fields, data) in list.iter().zip(&data) {
                *kinds.entry(text(fields, "type").to_owned()).or_default() += 1;
                if text(fields, "type") == "ack" {
                    let delay = Duration::from_micros(long(fields, "delay"));
                    writer.ack(ranges(fields), delay, long(fields, "marks")).unwrap();
                } else {
                    writer.frame(&frame(fields, data)).unwrap();
                }
            }
            let payload = writer.octets();
            let mut sealer = Sealer::new(suite, secret.clone(), 0);
            (0..phase).for_each(|_| sealer.rekey());
            sealer.skip_to(number).unwrap();
            let (sealed, length) = sealer.seal(&destination, &mut buffer, payload).unwrap();
            assert_eq!(sealed, number);
            assert_eq!(length, FLOW_HEADER_OCTETS + payload + TAG_OCTETS);
            assert_eq!(hex::encode(&buffer[..length]), text(case, "packet"));

            if phase > 1 {
                // A receiver follows one change of keys at a time: `dtp_modern` walks through them.
                continue;
            }
            let mut packet = octets(case, "packet");
            let opened = Opener::new(suite, secret).open(&mut packet).unwrap();
            assert_eq!((opened.number, opened.rekeyed), (number, phase == 1));
            let mut read = Frames::new(&packet[opened.payload]).unwrap();
            for (fields, data) in list.iter().zip(&data) {
                let got = read.next().unwrap().unwrap();
                let Frame::Ack { ranges: read_ranges, delay, congestion_marks } = got else {
                    assert_eq!(got, frame(fields, data));
                    continue;
                };
                assert_eq!(text(fields, "type"), "ack");
                assert!(read_ranges.iter().eq(ranges(fields)));
                assert_eq!(delay.as_micros(), u128::from(long(fields, "delay")));
                assert_eq!(congestion_marks, long(fields, "marks"));
            }
            assert!(read.next().is_none());
        }
    }
    assert_eq!(kinds.len(), 12, "every type of frame: {kinds:?}");
}
