//! What ends of DTP's `modern` suite tell each other in the handshake of a restart, and packets and frames that are wrong, against an implementation
//! of the specification in another language (`cases/dtp/modern_restart.py`, `cases/dtp/modern_clear.py`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(unused_macros, unused_imports, reason = "for tests of other fields")]
mod common;

use common::{cases, number, octets, text};
use heddle_core::dtp::modern::{
    Answer, Frames, Kind, ModernError, Parameters, RestartReport, Retry, StreamReport, Versions,
};
use serde_json::Value;

fn long(case: &Value, name: &str) -> u64 {
    case[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {case}"))
}

fn report(fields: &Value) -> RestartReport {
    let stream = |stream: &Value| StreamReport {
        id: number(stream, "id") as u32,
        complete: number(stream, "complete") == 1,
        delivered: long(stream, "delivered"),
        limit: long(stream, "limit"),
    };
    RestartReport {
        restarts: number(fields, "restarts") as u32,
        opened: number(fields, "opened") as u32,
        peer_opened: number(fields, "peer_opened") as u32,
        opened_ahead: number(fields, "opened_ahead") as u32,
        streams: fields["streams"].as_array().unwrap().iter().map(stream).collect(),
        refused: fields["refused"].as_bool().unwrap(),
    }
}

/// As an endpoint reads a payload.
fn read(payload: &[u8]) -> Result<RestartReport, ModernError> {
    Parameters::parse(payload)?;
    RestartReport::parse(payload)
}

#[test]
fn reports_are_those_of_the_other_implementation() {
    let (mut right, mut wrong) = (0, 0);
    for case in cases("dtp/modern_restart.jsonl") {
        let payload = octets(&case, "payload");
        if let Some(why) = case.get("wrong") {
            assert_eq!(read(&payload), Err(ModernError::Parameter), "{why}");
            wrong += 1;
            continue;
        }
        let meant = report(&case["fields"]);
        let mut buffer = [0; 200];
        let written = meant.write(&mut buffer).unwrap();
        assert_eq!(hex::encode(&buffer[..written]), text(&case, "octets"));
        assert_eq!(meant.write(&mut buffer[..written - 1]), Err(ModernError::NoRoom));
        assert_eq!(RestartReport::parse(&octets(&case, "octets")), Ok(meant.clone()));
        assert_eq!(read(&payload), Ok(meant), "among other parameters");
        right += 1;
    }
    assert!(right >= 60 && wrong >= 20, "{right} right, {wrong} wrong");
}

#[test]
fn packets_in_the_clear_are_those_of_the_other_implementation() {
    let mut buffer = [0; 600];
    for case in cases("dtp/modern_clear.jsonl") {
        let given = octets(&case, "octets");
        let (kind, is_wrong) = (text(&case, "kind"), case.get("wrong").is_some());
        let field = |name| octets(&case, name);
        let id = |name| field(name).try_into().unwrap();
        if kind == "frames" {
            let frames = Frames::new(&given);
            let read = frames.and_then(|frames| frames.into_iter().collect::<Result<Vec<_>, _>>());
            assert_eq!(read, Err(ModernError::Frame), "{case}");
            continue;
        }
        if is_wrong {
            let is_refused = match kind {
                "answer" => Answer::parse(&given).is_err(),
                "retry" => Retry::parse(&given).is_err(),
                _ => Versions::parse(&given).is_err(),
            };
            assert!(is_refused, "{case}");
            continue;
        }
        let rest = field("rest");
        let written = match kind {
            "answer" => {
                assert_eq!(Kind::of(&given), Ok(Kind::Answer));
                let meant = Answer { destination: id("destination"), message: &rest };
                assert_eq!(Answer::parse(&given), Ok(meant));
                let clear = meant.write_clear(&mut buffer).unwrap();
                buffer[clear..][..rest.len()].copy_from_slice(&rest);
                clear + rest.len()
            }
            "retry" => {
                assert_eq!(Kind::of(&given), Ok(Kind::Retry));
                let (destination, source) = (id("destination"), id("source"));
                let meant = Retry { destination, source, token: &rest };
                assert_eq!(Retry::parse(&given), Ok(meant));
                meant.write(&mut buffer).unwrap()
            }
            "versions" => {
                assert_eq!(Kind::of(&given), Ok(Kind::Versions));
                let meant = Versions { destination: id("destination"), versions: &rest };
                assert_eq!(Versions::parse(&given), Ok(meant));
                meant.write(&mut buffer).unwrap()
            }
            other => panic!("no packet: {other}"),
        };
        assert_eq!(buffer[..written], given);
    }
}
