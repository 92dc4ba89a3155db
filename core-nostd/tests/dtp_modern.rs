//! The `modern` suite of DTP against an implementation of its specification in another language (`cases/dtp/modern.py`), and against damage.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(unused_macros, unused_imports, reason = "for tests of other fields")]
mod common;

use common::{cases, number, octets, text};
use heddle_core::dtp::modern::{
    Answer, FLOW_HEADER_OCTETS, Handshake, Identity, Initial, KEY_OCTETS, Kind,
    LEAST_INITIAL_OCTETS, ModernError, Opener, Pattern, ResumeSecret, Retry, Role, Sealer,
    SessionSecrets, Suite, TrafficSecret, Versions, flow_connection_id, public_key,
};
use proptest::prelude::*;
use serde_json::Value;

fn key(case: &Value, name: &str) -> [u8; KEY_OCTETS] {
    octets(case, name).try_into().unwrap()
}

fn id(case: &Value, name: &str) -> [u8; 16] {
    octets(case, name).try_into().unwrap()
}

fn pattern(case: &Value) -> Pattern {
    Pattern::from_number(number(case, "pattern") as u8).unwrap()
}

/// What each end brings, no more than it needs.
fn identity(case: &Value, role: Role) -> Identity {
    let pattern = pattern(case);
    let knows = matches!(pattern, Pattern::KnownServer | Pattern::KnownServerClientKey);
    let (private, server) = match role {
        Role::Client => (
            (pattern == Pattern::KnownServerClientKey).then(|| key(case, "client_static")),
            knows.then(|| public_key(&key(case, "server_static"))),
        ),
        Role::Server => ((pattern != Pattern::PreShared).then(|| key(case, "server_static")), None),
    };
    let pre_shared = (pattern == Pattern::PreShared).then(|| key(case, "pre_shared"));
    Identity { private, server, pre_shared }
}

fn start(case: &Value, role: Role) -> Handshake {
    Handshake::new(pattern(case), role, identity(case, role), &octets(case, "clear")).unwrap()
}

fn part(case: &Value, list: &str, index: usize) -> Vec<u8> {
    hex::decode(case[list][index].as_str().unwrap()).unwrap()
}

/// Both ends, run against each other; every message must be the recorded one.
fn run(case: &Value) -> (SessionSecrets, SessionSecrets) {
    let (mut client, mut server) = (start(case, Role::Client), start(case, Role::Server));
    let mut buffer = [0; 2000];
    let mut payload = [0; 2000];
    let first = part(case, "payloads", 0);
    let written = client.write(key(case, "client_ephemeral"), &first, &mut buffer).unwrap();
    assert_eq!(buffer[..written], part(case, "messages", 0));
    let read = server.read(&buffer[..written], &mut payload).unwrap();
    assert_eq!(payload[..read], first);

    let second = part(case, "payloads", 1);
    let written = server.write(key(case, "server_ephemeral"), &second, &mut buffer).unwrap();
    assert_eq!(buffer[..written], part(case, "messages", 1));
    let read = client.read(&buffer[..written], &mut payload).unwrap();
    assert_eq!(payload[..read], second);

    match pattern(case) {
        Pattern::KnownServerClientKey => {
            assert_eq!(server.peer_key(), Some(public_key(&key(case, "client_static"))));
        }
        Pattern::UnknownServer => {
            assert_eq!(client.peer_key(), Some(public_key(&key(case, "server_static"))));
        }
        Pattern::KnownServer | Pattern::PreShared => assert_eq!(server.peer_key(), None),
    }
    let nothing = client.write([1; 32], &[], &mut buffer);
    assert_eq!(nothing, Err(ModernError::Sequence), "there is no third message");
    (client.finish().unwrap(), server.finish().unwrap())
}

fn direction(secrets: &SessionSecrets, from: &str) -> TrafficSecret {
    match from {
        "client" => secrets.client_to_server.clone(),
        "server" => secrets.server_to_client.clone(),
        other => panic!("no end: {other}"),
    }
}

#[test]
fn messages_keys_and_packets_are_those_of_the_other_implementation() {
    let (mut handshakes, mut packets) = (0, 0);
    for case in cases("dtp/modern.jsonl") {
        let (client, server) = run(&case);
        assert_eq!(client.resume.as_bytes(), &key(&case, "resume"));
        assert_eq!(server.resume.as_bytes(), &key(&case, "resume"));
        let list = case["packets"].as_array().unwrap();
        for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
            for from in ["client", "server"] {
                let (sends, takes) =
                    if from == "client" { (&client, &server) } else { (&server, &client) };
                let sealer = Sealer::new(suite, direction(sends, from), 0);
                let opener = Opener::new(suite, direction(takes, from));
                let of_this =
                    |packet: &&Value| packet["suite"] == suite.bit() && packet["from"] == from;
                packets +=
                    exchange(sealer, opener, id(&case, "destination"), list.iter().filter(of_this));
            }
        }
        let restart = &case["restart"];
        let resume = ResumeSecret::new(key(&case, "resume"));
        assert_eq!(resume.pre_shared(), key(restart, "pre_shared"));
        let (first, second) = run(restart);
        for packet in restart["packets"].as_array().unwrap() {
            let from = text(packet, "from");
            let sealer = Sealer::new(Suite::ChaCha20Poly1305, direction(&first, from), 0);
            let opener = Opener::new(Suite::ChaCha20Poly1305, direction(&second, from));
            packets += exchange(sealer, opener, id(&case, "destination"), std::iter::once(packet));
        }
        handshakes += 1;
    }
    assert_eq!((handshakes, packets), (12, 12 * 22));
}

/// Seals the packets of a direction in their order and opens them at the other end.
fn exchange<'a>(
    mut sealer: Sealer,
    mut opener: Opener,
    destination: [u8; 16],
    packets: impl Iterator<Item = &'a Value>,
) -> usize {
    let (mut count, mut phase) = (0, 0);
    for packet in packets {
        let expected_phase = packet["phase"].as_u64().unwrap_or(0);
        let rekeyed = phase != expected_phase;
        while phase < expected_phase {
            sealer.rekey();
            phase += 1;
        }
        let number = packet["number"].as_u64().unwrap();
        sealer.skip_to(number).unwrap();
        let payload = octets(packet, "payload");
        let mut buffer = [0; 1500];
        buffer[FLOW_HEADER_OCTETS..][..payload.len()].copy_from_slice(&payload);
        let (sealed, length) = sealer.seal(&destination, &mut buffer, payload.len()).unwrap();
        assert_eq!(sealed, number);
        assert_eq!(hex::encode(&buffer[..length]), text(packet, "packet"));
        assert_eq!(Kind::of(&buffer), Ok(Kind::Flow));
        assert_eq!(flow_connection_id(&buffer[..length]), Ok(destination));
        let opened = opener.open(&mut buffer[..length]).unwrap();
        assert_eq!((opened.number, opened.rekeyed, opened.newest), (number, rekeyed, true));
        assert_eq!(buffer[opened.payload], payload);
        count += 1;
    }
    count
}

#[test]
fn initials_hold_what_the_prologue_binds() {
    for case in cases("dtp/modern.jsonl") {
        let token = octets(&case, "token");
        let message = part(&case, "messages", 0);
        let initial = Initial {
            pattern: number(&case, "pattern") as u8,
            suites: 3,
            destination: id(&case, "destination"),
            source: id(&case, "source"),
            token: &token,
            message: &message,
        };
        let mut buffer = vec![0; 2000];
        let clear = initial.write_clear(&mut buffer).unwrap();
        assert_eq!(buffer[..clear], octets(&case, "clear"));
        buffer[clear..][..message.len()].copy_from_slice(&message);
        buffer.truncate(clear + message.len());
        let (parsed, bound) = Initial::parse(&buffer).unwrap();
        assert_eq!((parsed, bound), (initial, &buffer[..clear]));
        assert_eq!(
            Initial::parse(&buffer[..LEAST_INITIAL_OCTETS - 1]),
            Err(ModernError::InitialTooShort)
        );

        // An octet that changes in the clear, or in the message, ends the handshake.
        for octet in [2, 3, 4, 20, clear - 1, clear + 3, buffer.len() - 1] {
            let mut changed = buffer.clone();
            changed[octet] ^= 1;
            let Ok((initial, clear)) = Initial::parse(&changed) else { continue };
            let identity = identity(&case, Role::Server);
            let mut server = Handshake::new(pattern(&case), Role::Server, identity, clear).unwrap();
            let mut payload = [0; 2000];
            if server.read(initial.message, &mut payload).is_err() {
                continue;
            }
            // With pattern NX the first message is in the clear: the second one shows it.
            assert_eq!(pattern(&case), Pattern::UnknownServer);
            let mut client = start(&case, Role::Client);
            let mut out = [0; 2000];
            client
                .write(key(&case, "client_ephemeral"), &part(&case, "payloads", 0), &mut out)
                .unwrap();
            let written = server.write([5; 32], b"answer", &mut out).unwrap();
            let read = client.read(&out[..written], &mut payload);
            assert_eq!(read, Err(ModernError::Authentication));
        }
    }
}

#[test]
fn who_holds_another_key_gets_nowhere() {
    for case in cases("dtp/modern.jsonl") {
        let clear = octets(&case, "clear");
        let message = part(&case, "messages", 0);
        let mut wrong = identity(&case, Role::Server);
        wrong.private = wrong.private.map(|_| [9; 32]);
        wrong.pre_shared = wrong.pre_shared.map(|_| [9; 32]);
        let mut server = Handshake::new(pattern(&case), Role::Server, wrong, &clear).unwrap();
        let mut payload = [0; 2000];
        let read = server.read(&message, &mut payload);
        if pattern(&case) == Pattern::UnknownServer {
            // Any server can answer: what it gets is that the client sees its key.
            assert!(read.is_ok());
            let mut client = start(&case, Role::Client);
            let mut out = [0; 2000];
            client
                .write(key(&case, "client_ephemeral"), &part(&case, "payloads", 0), &mut out)
                .unwrap();
            let written = server.write([5; 32], &[], &mut out).unwrap();
            client.read(&out[..written], &mut payload).unwrap();
            assert_eq!(client.peer_key(), Some(public_key(&[9; 32])));
        } else {
            assert_eq!(read, Err(ModernError::Authentication));
        }

        // Keys that lead to the same secret whatever one holds are refused (RFC 7748, 6.1).
        let mut low_order = message.clone();
        low_order[..32].fill(0);
        let mut server = start(&case, Role::Server);
        let read = server.read(&low_order, &mut payload);
        match pattern(&case) {
            Pattern::KnownServer | Pattern::KnownServerClientKey => {
                assert_eq!(read, Err(ModernError::KeyValue));
            }
            Pattern::PreShared => assert_eq!(read, Err(ModernError::Authentication)),
            Pattern::UnknownServer => {
                let written = server.write([5; 32], &[], &mut payload);
                assert_eq!(written, Err(ModernError::KeyValue));
            }
        }
    }
}

#[test]
fn handshakes_keep_their_order_and_their_room() {
    let case = &cases("dtp/modern.jsonl")[0];
    let mut buffer = [0; 2000];
    let mut server = start(case, Role::Server);
    assert_eq!(server.write([1; 32], &[], &mut buffer), Err(ModernError::Sequence));
    assert_eq!(server.finish().unwrap_err(), ModernError::Sequence);
    for room in [0, 31, 32, 47, 60] {
        let mut client = start(case, Role::Client);
        let written = client.write([1; 32], &[1; 13], &mut buffer[..room]);
        assert_eq!(written, Err(ModernError::NoRoom), "{room}");
    }
    let message = part(case, "messages", 0);
    for octets in [0, 31, 32, 47] {
        let read = start(case, Role::Server).read(&message[..octets], &mut buffer);
        assert_eq!(read, Err(ModernError::Truncated), "{octets}");
    }
    let read = start(case, Role::Server).read(&message, &mut buffer[..100]);
    assert_eq!(read, Err(ModernError::NoRoom));
    for (pattern, role) in [
        (Pattern::KnownServer, Role::Client),
        (Pattern::KnownServer, Role::Server),
        (Pattern::KnownServerClientKey, Role::Client),
        (Pattern::UnknownServer, Role::Server),
        (Pattern::PreShared, Role::Client),
        (Pattern::PreShared, Role::Server),
    ] {
        let nothing = Handshake::new(pattern, role, Identity::default(), &[]);
        assert_eq!(nothing.unwrap_err(), ModernError::Sequence);
    }
}

#[test]
fn small_packets_are_written_and_read() {
    let mut buffer = [0; 100];
    let retry = Retry { destination: [1; 16], source: [2; 16], token: &[3; 24] };
    let octets = retry.write(&mut buffer).unwrap();
    assert_eq!(Retry::parse(&buffer[..octets]), Ok(retry));
    assert_eq!(Retry::parse(&buffer[..octets + 1]), Err(ModernError::Token));
    assert_eq!(Retry::parse(&buffer[..octets - 1]), Err(ModernError::Truncated));
    assert_eq!(retry.write(&mut buffer[..octets - 1]), Err(ModernError::NoRoom));
    let versions = Versions { destination: [1; 16], versions: &[1] };
    let octets = versions.write(&mut buffer).unwrap();
    assert_eq!(Versions::parse(&buffer[..octets]), Ok(versions));
    assert_eq!(Versions::parse(&buffer[..octets + 1]), Err(ModernError::Version));
    let answer = Answer { destination: [1; 16], message: b"message" };
    let clear = answer.write_clear(&mut buffer).unwrap();
    buffer[clear..][..7].copy_from_slice(b"message");
    assert_eq!(Answer::parse(&buffer[..clear + 7]), Ok(answer));
    let mut other = vec![0; 1200];
    other[..2].copy_from_slice(&[0x81, 2]);
    assert_eq!(Initial::parse(&other), Err(ModernError::Version));
    let kinds = [
        (0x81, Kind::Initial),
        (0x82, Kind::Answer),
        (0x83, Kind::Retry),
        (0x84, Kind::Versions),
        (0x7f, Kind::Flow),
    ];
    for (first, kind) in kinds {
        assert_eq!(Kind::of(&[first]), Ok(kind));
    }
    for first in [0, 0x3f, 0x80, 0x85, 0xff] {
        assert_eq!(Kind::of(&[first]), Err(ModernError::Kind));
    }
    assert_eq!(Kind::of(&[]), Err(ModernError::Truncated));
}

proptest! {
    /// Octets from nobody open nothing, whatever they are, and change nothing.
    #[test]
    fn any_octets_are_refused(mut datagram in proptest::collection::vec(any::<u8>(), 0..1400), kind in 0usize..6) {
        if let (Some(first), Some(kind)) = (datagram.first_mut(), [0x81, 0x82, 0x83, 0x84, 0x41].get(kind)) {
            *first = *kind;
        }
        let secret = TrafficSecret::first(&[1; 32]);
        for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
            let mut opener = Opener::new(suite, secret.clone());
            let before = datagram.clone();
            prop_assert!(opener.open(&mut datagram).is_err());
            prop_assert_eq!(&before, &datagram);
        }
        let _ = (Initial::parse(&datagram).is_ok(), Answer::parse(&datagram).is_ok(), Retry::parse(&datagram).is_ok(), Versions::parse(&datagram).is_ok());
        let identity = Identity { private: Some([1; 32]), server: None, pre_shared: None };
        let mut server = Handshake::new(Pattern::KnownServerClientKey, Role::Server, identity, &[]).unwrap();
        prop_assert!(server.read(&datagram, &mut [0; 1500]).is_err());
    }
}
