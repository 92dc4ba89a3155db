//! The `paper` suite of DTP against single packets and ciphertexts that were made elsewhere (`cases/dtp`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(unused_macros, unused_imports, reason = "for tests of other fields")]
mod common;

use common::{cases, number, octets, text};
use heddle_core::dtp::paper::{
    Accepted, DtpOption, FlowState, Header, KeepAliveLimits, LEAST_KEEP_ALIVE_S, MAX_WINDOW_SHIFT,
    Packet, PacketWriter, PaperError, PrivateKey, PublicKey, Secret, SequenceNumber, Syn, SynAck,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The fields as the cases name them.
fn fields(packet: &Packet) -> Value {
    let header = &packet.header;
    let flags: Vec<&str> = packet.flags().iter_names().map(|(name, _)| name).collect();
    let options: Vec<Value> = packet.options().map(|option| option_fields(&option)).collect();
    json!({
        "flow_id": format!("{:08x}", header.flow_id()),
        "seq": header.sequence(),
        "ack": header.acknowledgement(),
        "data_offset": header.data_offset_octets(),
        "reserved": header.reserved(),
        "flags": flags,
        "window": header.window(),
        "options": options,
        "payload_len": packet.payload.len(),
    })
}

fn option_fields(option: &DtpOption) -> Value {
    let with = |kind: u8, name: &str, value: Vec<u8>| json!({ "kind": kind, "name": name, "len": value.len() + 2, "value": hex::encode(value) });
    match *option {
        DtpOption::End => json!({ "kind": 0, "name": "EOL" }),
        DtpOption::NoOperation => json!({ "kind": 1, "name": "NOP" }),
        DtpOption::MaxSegmentSize { octets } => with(2, "MSS", octets.to_be_bytes().into()),
        DtpOption::WindowScale { shift } => with(3, "WSCALE", vec![shift]),
        DtpOption::SackPermitted => with(4, "SACK_PERM", vec![]),
        DtpOption::Sack(blocks) => {
            let edges = blocks.iter().flat_map(|block| [block.left, block.right]);
            with(5, "SACK", edges.flat_map(u32::to_be_bytes).collect())
        }
        DtpOption::KeepAlive { seconds } => with(6, "KEEP_ALIVE", seconds.to_be_bytes().into()),
        DtpOption::HostId(id) => with(7, "HOST_ID", id.into()),
        DtpOption::Port(port) => with(8, "PORT", port.to_le_bytes().into()),
        DtpOption::Deadline { seconds } => with(9, "DEADLINE", seconds.to_le_bytes().into()),
        DtpOption::Unknown { kind, value } => with(kind, "?", value.into()),
    }
}

/// The packet written anew from its decoded parts.
fn rewritten(packet: &Packet) -> Vec<u8> {
    let header = packet.header;
    let anew = Header::new(
        header.flow_id(),
        header.sequence(),
        header.acknowledgement(),
        header.flags(),
        header.window(),
    )
    .with_ignored(header.reserved(), header.checksum(), header.urgent());
    let mut buffer = vec![0xa5; 2000];
    let mut writer = PacketWriter::new(&mut buffer, anew).unwrap();
    packet.options().for_each(|option| writer.option(option).unwrap());
    let octets = writer.finish(packet.payload).unwrap();
    buffer.truncate(octets);
    buffer
}

#[test]
fn packets_parse_to_the_fields_and_write_to_the_octets() {
    let (mut accepted, mut dropped) = (0, 0);
    for case in cases("dtp/paper.jsonl").iter().filter(|case| text(case, "stage") == "parse") {
        let datagram = octets(case, "packet");
        match text(case, "verdict") {
            "accept" => {
                let packet = Packet::parse(&datagram).unwrap();
                assert_eq!(fields(&packet), case["fields"], "{case}");
                let note = case["note"].as_str().unwrap_or_default();
                if note.contains("behind EOL") || note.contains("40 octets of EOL") {
                    // What stands behind the end of the list is not kept, so only what is before it can come back.
                    assert_eq!(rewritten(&packet)[..12], datagram[..12], "{case}");
                } else {
                    assert_eq!(rewritten(&packet), datagram, "{case}");
                }
                accepted += 1;
            }
            "drop" => {
                let error = Packet::parse(&datagram).unwrap_err();
                assert_eq!(error.name(), text(case, "reason"), "{case}");
                dropped += 1;
            }
            other => panic!("a verdict that this test does not know: {other}"),
        }
    }
    assert_eq!((accepted, dropped), (27, 43));
}

/// What the receiver of a first packet says to it.
fn handshake(case: &Value, packet: &Packet) -> Result<(), PaperError> {
    if case["role"] == "client" {
        return SynAck::read(packet, 265, 256).map(|_| ());
    }
    let limits = KeepAliveLimits::new(86_400);
    let syn = Syn::read(packet)?;
    let granted = limits.grant(syn.options.keep_alive_s);
    assert!((LEAST_KEEP_ALIVE_S..=86_400).contains(&granted));
    if let Some(asked) = case["keep_alive_asked_s"].as_u64() {
        assert_eq!(syn.options.keep_alive_s.map(u64::from), Some(asked));
        if (60..=86_400).contains(&asked) {
            assert_eq!(u64::from(granted), asked);
        }
    }
    assert!(syn.options.window_shift <= MAX_WINDOW_SHIFT);
    assert_eq!(syn.options.window_shift_capped, case["reason"] == "window_scale_capped");
    Ok(())
}

#[test]
fn handshakes_get_their_verdicts() {
    let mut judged = 0;
    for case in cases("dtp/paper.jsonl").iter().filter(|case| text(case, "stage") == "handshake") {
        let datagram = octets(case, "packet");
        let result = Packet::parse(&datagram).and_then(|packet| handshake(case, &packet));
        match text(case, "verdict") {
            "accept" => assert_eq!(result, Ok(()), "{case}"),
            "drop" => assert_eq!(result.unwrap_err().name(), text(case, "reason"), "{case}"),
            "accept_or_drop" => {}
            other => panic!("a verdict that this test does not know: {other}"),
        }
        judged += 1;
    }
    assert_eq!(judged, 55);
}

fn state(case: &Value) -> FlowState {
    let state = &case["state"];
    let value = |key: &str| u32::try_from(number(state, key)).unwrap();
    FlowState {
        flow_id: u32::from_str_radix(text(state, "flow_id"), 16).unwrap(),
        receive_next: SequenceNumber(value("rcv_nxt")),
        receive_window: value("rcv_wnd"),
        send_unacknowledged: SequenceNumber(value("snd_una")),
        send_next: SequenceNumber(value("snd_nxt")),
        sack_permitted: state["sack_permitted"] == true,
        challenge_outstanding: false,
        proof_outstanding: false,
    }
}

#[test]
fn established_flows_take_what_is_theirs() {
    let mut judged = 0;
    for case in cases("dtp/paper.jsonl").iter().filter(|case| text(case, "stage") == "flow") {
        let datagram = octets(case, "packet");
        let packet = Packet::parse(&datagram).unwrap();
        judged += 1;
        if case["state"].is_null() {
            // Wrong for every flow, also for one of this id.
            assert_eq!(packet.check().unwrap_err().name(), text(case, "reason"), "{case}");
            continue;
        }
        let state = state(case);
        let proven = text(&case["state"], "address") == "proven, unchanged";
        let result = state.judge(&packet, proven);
        match text(case, "verdict") {
            "accept" => accepts(case, &state, &packet, result.unwrap()),
            "drop" => assert_eq!(result.unwrap_err().name(), text(case, "reason"), "{case}"),
            "close" => assert_eq!(result, Ok(Accepted::Close), "{case}"),
            "close_or_challenge" => assert_eq!(result, Ok(Accepted::ChallengeReset), "{case}"),
            "ignore_block" | "ignore_option" => {
                assert!(result.is_ok(), "{case}");
                let wrong = state.sack_blocks(&packet).find_map(Result::err).unwrap();
                assert_eq!(wrong.name(), text(case, "reason"), "{case}");
            }
            other => panic!("a verdict that this test does not know: {other}"),
        }
        if let Some(used) = case["sack_used"].as_u64() {
            let blocks = state.sack_blocks(&packet).filter(Result::is_ok).count() as u64;
            assert_eq!(blocks, used, "{case}");
        }
    }
    assert_eq!(judged, 82);
}

fn accepts(case: &Value, state: &FlowState, packet: &Packet, accepted: Accepted) {
    let Accepted::Segment { new, in_order, duplicate, acknowledged, fin } = accepted else {
        panic!("no segment: {case}");
    };
    assert!(!fin);
    assert_eq!(duplicate, case["reason"] == "duplicate_data", "{case}");
    let delivered = if in_order { new.len() } else { 0 };
    if let Some(deliver) = case["deliver"].as_u64() {
        assert_eq!(delivered as u64, deliver, "{case}");
        assert!(in_order || !new.is_empty(), "data behind a gap is kept: {case}");
    } else {
        assert_eq!(delivered, 0, "{case}");
    }
    let acknowledgement = packet.header.acknowledgement();
    let expected = acknowledgement.wrapping_sub(state.send_unacknowledged.0).cast_signed().max(0);
    assert_eq!(acknowledged, expected as u32, "{case}");
    assert!(case["reason"] != "old_ack" || acknowledged == 0, "{case}");
}

#[test]
fn challenges_and_proofs_are_taken_only_when_asked_for() {
    let flow = FlowState {
        flow_id: 9,
        receive_next: SequenceNumber(u32::MAX),
        receive_window: 100,
        send_unacknowledged: SequenceNumber(5),
        send_next: SequenceNumber(8),
        sack_permitted: false,
        challenge_outstanding: true,
        proof_outstanding: true,
    };
    use heddle_core::dtp::paper::Flags;
    let judge = |flow: &FlowState, flags, sequence, acknowledgement, payload: &[u8]| {
        let mut buffer = [0; 256];
        let header = Header::new(9, sequence, acknowledgement, flags, 1);
        let octets = PacketWriter::new(&mut buffer, header).unwrap().finish(payload).unwrap();
        flow.judge(&Packet::parse(&buffer[..octets]).unwrap(), true)
    };
    assert_eq!(judge(&flow, Flags::CHG, 0, 0, &[0; 4]), Ok(Accepted::Prove));
    assert_eq!(judge(&flow, Flags::RSP, 0, 0, &[0; 20]), Ok(Accepted::Proof));
    let auth = Flags::AUTH | Flags::ACK | Flags::PSH | Flags::URG;
    assert_eq!(judge(&flow, auth, u32::MAX, 8, &[]), Ok(Accepted::Proven));
    assert_eq!(judge(&flow, auth, u32::MAX, 9, &[]), Err(PaperError::Ack));
    let quiet = FlowState { proof_outstanding: false, ..flow };
    assert_eq!(judge(&quiet, auth, u32::MAX, 8, &[]), Err(PaperError::NoChallenge));

    // A FIN counts with the last octet of its payload, over the end of the sequence space too, and once.
    let fin = Flags::FIN | Flags::ACK;
    let segment =
        |flow: &FlowState, sequence, payload: &[u8]| match judge(flow, fin, sequence, 5, payload)
            .unwrap()
        {
            Accepted::Segment { new, in_order, duplicate, fin, .. } => {
                (new, in_order, duplicate, fin)
            }
            other => panic!("{other:?}"),
        };
    assert_eq!(segment(&flow, u32::MAX, b"ab"), (0..2, true, false, true));
    assert_eq!(segment(&flow, u32::MAX - 2, b"ab"), (2..2, true, false, true));
    assert_eq!(segment(&flow, u32::MAX - 3, b"ab"), (2..2, true, true, false));
    assert_eq!(segment(&flow, 1, b"ab"), (0..2, false, false, true));
    assert_eq!(segment(&flow, u32::MAX, &[0; 120]), (0..100, true, false, false));
}

#[test]
fn secrets_encrypt_and_decrypt_as_elsewhere() {
    let (mut right, mut wrong) = (0, 0);
    for case in cases("dtp/oaep.jsonl") {
        let modulus = octets(&case, "n");
        let key = PublicKey::new(&modulus, &octets(&case, "e")).unwrap();
        let private = PrivateKey::new(&key, &octets(&case, "d")).unwrap();
        let encrypted = octets(&case, "encrypted");
        if text(&case, "verdict") == "drop" {
            assert_eq!(private.decrypt(&encrypted).unwrap_err(), PaperError::Secret, "{case}");
            wrong += 1;
            continue;
        }
        let secret = Secret::new(octets(&case, "secret").try_into().unwrap());
        assert_eq!(private.decrypt(&encrypted).unwrap().as_bytes(), secret.as_bytes());
        let mut buffer = [0; 512];
        let seed = octets(&case, "seed").try_into().unwrap();
        assert_eq!(key.encrypt(&seed, &secret, &mut buffer), Ok(modulus.len()));
        assert_eq!(buffer[..modulus.len()], encrypted, "{case}");
        let short = &mut buffer[..modulus.len() - 1];
        assert_eq!(key.encrypt(&seed, &secret, short), Err(PaperError::NoRoom));
        let short = private.decrypt(&encrypted[1..]).unwrap_err();
        assert_eq!(short, PaperError::KeyLength);
        right += 1;
    }
    assert_eq!((right, wrong), (8, 24));
}

proptest! {
    /// Whatever arrives is parsed or refused, and what is parsed is written to octets that parse to the same.
    #[test]
    fn any_octets_are_a_packet_or_an_error(
        mut datagram in proptest::collection::vec(any::<u8>(), 0..200),
        words in 0u8..16,
        kinds in proptest::collection::vec((0u8..12, 0u8..36), 0..4),
    ) {
        if let Some(offset) = datagram.get_mut(12) {
            *offset = (*offset & 0xf0) | words;
        }
        let mut at = 20;
        for (kind, length) in kinds {
            if let Some(place) = datagram.get_mut(at..at + 2) {
                place.copy_from_slice(&[kind, length]);
                at += usize::from(length.max(1));
            }
        }
        if let Ok(packet) = Packet::parse(&datagram) {
            let anew = rewritten(&packet);
            prop_assert_eq!(fields(&Packet::parse(&anew).unwrap())["options"].clone(), fields(&packet)["options"].clone());
            prop_assert_eq!(Packet::parse(&anew).unwrap().payload, packet.payload);
            let _ = (packet.check(), Syn::read(&packet).is_ok(), SynAck::read(&packet, 265, 256).is_ok());
        }
    }

    /// A judged segment never gives octets outside of its payload or beyond the window.
    #[test]
    fn no_segment_passes_the_window(
        sequence: u32, receive_next: u32, receive_window in 0u32..1 << 20, payload in 0usize..1500, ack: u32, flags in 0u16..256, near: bool,
    ) {
        let sequence = if near { receive_next.wrapping_add(sequence % 4096).wrapping_sub(2048) } else { sequence };
        let state = FlowState {
            flow_id: 7,
            receive_next: SequenceNumber(receive_next),
            receive_window,
            send_unacknowledged: SequenceNumber(ack),
            send_next: SequenceNumber(ack.wrapping_add(1)),
            sack_permitted: true,
            challenge_outstanding: true,
            proof_outstanding: true,
        };
        use heddle_core::dtp::paper::Flags;
        let header = Header::new(7, sequence, ack, Flags::from_bits_retain(flags), 1);
        let mut buffer = vec![0; 1600];
        let octets = PacketWriter::new(&mut buffer, header).unwrap().finish(&vec![1; payload]).unwrap();
        let packet = Packet::parse(&buffer[..octets]).unwrap();
        if let Ok(Accepted::Segment { new, in_order, duplicate, .. }) = state.judge(&packet, true) {
            prop_assert!(new.start <= new.end && new.end <= payload);
            let start = sequence.wrapping_add(new.start as u32).wrapping_sub(receive_next);
            if !new.is_empty() {
                prop_assert!(!duplicate);
                prop_assert!(start.checked_add(new.len() as u32).unwrap() <= receive_window);
                prop_assert_eq!(in_order, start == 0);
            }
        }
    }
}
