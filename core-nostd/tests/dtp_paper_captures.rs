//! The `paper` suite of DTP against two recorded exchanges of a reference implementation (`cases/dtp`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(unused_macros, unused_imports, reason = "for tests of other fields")]
mod common;

use common::{cases, number, octets, text};
use heddle_core::dtp::paper::{
    Accepted, Challenge, DtpOption, Flags, FlowState, Header, NONCE_OCTETS, Packet, PacketWriter,
    PrivateKey, Secret, SequenceNumber, Syn, SynAck, write_syn_payload,
};
use heddle_core::node::Instant;
use serde_json::Value;
use std::path::Path;

const RUNS: [&str; 2] = ["short-upload", "outage-new-address"];

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/dtp")
}

fn run(name: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(name).with_extension("json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A frame of a capture, down to its UDP payload.
struct Datagram {
    source: [u8; 4],
    destination_port: u16,
    /// Octets that the payload had before the capture cut it.
    octets: usize,
    payload: Vec<u8>,
}

/// The datagrams in a classic little-endian pcap file of Ethernet frames with IPv4 and UDP.
fn datagrams(name: &str) -> Vec<Datagram> {
    let file = std::fs::read(folder().join(name).with_extension("pcap")).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!((word(0), word(20)), (0xa1b2_c3d4, 1));
    let mut at = 24;
    let mut datagrams = Vec::new();
    while at < file.len() {
        let kept = word(at + 8);
        let frame = &file[at + 16..at + 16 + kept];
        at += 16 + kept;
        let ip = &frame[14..];
        let udp = &ip[usize::from(ip[0] & 15) * 4..];
        datagrams.push(Datagram {
            source: ip[12..16].try_into().unwrap(),
            destination_port: u16::from_be_bytes([udp[2], udp[3]]),
            octets: usize::from(u16::from_be_bytes([udp[4], udp[5]])) - 8,
            payload: udp[8..].to_vec(),
        });
    }
    datagrams
}

#[test]
fn every_packet_reads_as_recorded_and_writes_to_its_octets() {
    for name in RUNS {
        let lines = cases(&format!("dtp/{name}.jsonl"));
        let datagrams = datagrams(name);
        assert_eq!(lines.len(), datagrams.len());
        for (line, datagram) in lines.iter().zip(&datagrams) {
            let packet = Packet::parse(&datagram.payload).unwrap();
            packet.check().unwrap();
            let header = packet.header;
            assert_eq!(header.flow_id(), u32::from_str_radix(text(line, "flow_id"), 16).unwrap());
            assert_eq!(header.sequence() as usize, number(line, "seq"));
            assert_eq!(header.acknowledgement() as usize, number(line, "ack"));
            assert_eq!(header.data_offset_octets(), number(line, "data_offset"));
            assert_eq!(usize::from(header.reserved()), number(line, "reserved"));
            assert_eq!(usize::from(header.window()), number(line, "window"));
            assert_eq!(usize::from(header.checksum()), number(line, "checksum"));
            assert_eq!(usize::from(header.urgent()), number(line, "urgent"));
            let flags: Vec<&str> = packet.flags().iter_names().map(|(name, _)| name).collect();
            assert_eq!(serde_json::to_value(flags).unwrap(), line["flags"]);
            assert_eq!(datagram.octets - header.data_offset_octets(), number(line, "payload_len"));
            if line["payload"].is_string() {
                assert_eq!(packet.payload, octets(line, "payload"));
            }

            let anew = Header::new(
                header.flow_id(),
                header.sequence(),
                header.acknowledgement(),
                header.flags(),
                header.window(),
            )
            .with_ignored(header.reserved(), header.checksum(), header.urgent());
            let mut buffer = [0xa5; 1600];
            let mut writer = PacketWriter::new(&mut buffer, anew).unwrap();
            packet.options().for_each(|option| writer.option(option).unwrap());
            let octets = writer.finish(packet.payload).unwrap();
            assert_eq!(buffer[..octets], datagram.payload);
        }
    }
}

#[test]
fn handshakes_are_understood_and_proofs_are_right() {
    for name in RUNS {
        let run = run(name);
        let datagrams = datagrams(name);
        let secret = Secret::new(octets(&run["syn_ack"], "secret").try_into().unwrap());

        let packet = Packet::parse(&datagrams[0].payload).unwrap();
        let syn = Syn::read(&packet).unwrap();
        assert_eq!(syn.key.modulus(), octets(&run["rsa_key"], "n"));
        assert_eq!((syn.key.exponent(), syn.next_sequence), (3, 265));
        assert_eq!((syn.options.window_shift, syn.options.keep_alive_s), (4, None));
        let mut payload = [0; 300];
        let length = write_syn_payload(&syn.key, &mut payload).unwrap();
        assert_eq!(payload[..length], *packet.payload);

        let packet = Packet::parse(&datagrams[1].payload).unwrap();
        let syn_ack = SynAck::read(&packet, syn.next_sequence, syn.key.octets()).unwrap();
        assert_eq!((syn_ack.options.port, syn_ack.next_expected), (Some(49153), 256));
        assert_eq!(datagrams[2].destination_port, 49153, "the client moved there");
        let private = PrivateKey::new(&syn.key, &octets(&run["rsa_key"], "d")).unwrap();
        let decrypted = private.decrypt(syn_ack.encrypted_secret).unwrap();
        assert_eq!(decrypted.as_bytes(), secret.as_bytes());

        for change in run["change"].as_array().unwrap() {
            let nonce: [u8; NONCE_OCTETS] = octets(change, "nonce").try_into().unwrap();
            let response = octets(change, "response");
            assert_eq!(secret.respond(&nonce)[..], response);
            let mut outstanding = Some(Challenge::new(nonce, Instant::ZERO));
            Challenge::answer(&mut outstanding, Instant::ZERO, &secret, &response).unwrap();
        }
    }
    assert_eq!(run("outage-new-address")["change"].as_array().unwrap().len(), 1);
}

/// One end of a flow that takes what the recorded packets say.
struct End {
    state: FlowState,
    /// Runs of octets beyond the next one, as (start, end).
    beyond: Vec<(u32, u32)>,
    finished: bool,
}

impl End {
    fn sent(&mut self, packet: &Packet, octets: u32) {
        let end = SequenceNumber(packet.header.sequence()).add(octets);
        // CHG and RSP have no place in the sequence.
        if !packet.flags().intersects(Flags::CHG | Flags::RSP)
            && end.since(self.state.send_next) > 0
        {
            self.state.send_next = end;
        }
        self.state.challenge_outstanding |= packet.flags().contains(Flags::CHG);
        self.state.proof_outstanding |= packet.flags().contains(Flags::RSP);
    }

    /// Takes a segment of `octets`, of which a capture may have kept fewer.
    fn take(&mut self, packet: &Packet, octets: usize) -> Accepted {
        let mut accepted = self.state.judge(packet, true).unwrap();
        match &mut accepted {
            Accepted::Segment { new, acknowledged, fin, .. } => {
                self.state.send_unacknowledged = self.state.send_unacknowledged.add(*acknowledged);
                if new.start < new.end {
                    let start = packet.header.sequence().wrapping_add(new.start as u32);
                    new.end = octets;
                    self.beyond.push((start, packet.header.sequence().wrapping_add(octets as u32)));
                }
                while let Some(&(_, end)) = self.beyond.iter().find(|&&(start, end)| {
                    let next = self.state.receive_next;
                    SequenceNumber(start).since(next) <= 0 && SequenceNumber(end).since(next) > 0
                }) {
                    self.state.receive_next = SequenceNumber(end);
                }
                if *fin {
                    self.state.receive_next = self.state.receive_next.add(1);
                    self.finished = true;
                }
            }
            Accepted::Proof => self.state.challenge_outstanding = false,
            Accepted::Proven => self.state.proof_outstanding = false,
            _ => {}
        }
        accepted
    }
}

#[test]
fn established_flows_accept_every_recorded_packet() {
    for name in RUNS {
        let run = run(name);
        let datagrams = datagrams(name);
        let end = |receive_next, send_next| End {
            state: FlowState {
                flow_id: u32::from_str_radix(text(&run, "flow_id"), 16).unwrap(),
                receive_next: SequenceNumber(receive_next),
                receive_window: 1 << 20,
                send_unacknowledged: SequenceNumber(send_next),
                send_next: SequenceNumber(send_next),
                sack_permitted: false,
                challenge_outstanding: false,
                proof_outstanding: false,
            },
            beyond: Vec::new(),
            finished: false,
        };
        let (mut client, mut server) = (end(256, 265), end(265, 256));
        let application = &run["application"];
        let first = number(application, "first_sequence");
        let (mut checked, mut changes) = (0, Vec::new());
        for datagram in &datagrams[2..] {
            let packet = Packet::parse(&datagram.payload).unwrap();
            let octets = datagram.octets - packet.header.data_offset_octets();
            let fin = u32::from(packet.flags().contains(Flags::FIN));
            let from_client = datagram.source != [10, 77, 0, 2];
            let (sender, receiver) =
                if from_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
            sender.sent(&packet, octets as u32 + fin);
            match receiver.take(&packet, octets) {
                Accepted::Segment { .. } => {}
                other => changes.push((from_client, other)),
            }
            if from_client && !packet.flags().contains(Flags::RSP) {
                let numbers = packet.header.sequence() as usize..;
                for (number, &octet) in numbers.zip(packet.payload) {
                    // The command and the length of the data come first.
                    let Some(i) = number.checked_sub(first) else { continue };
                    assert_eq!(usize::from(octet), (i * 167 + 13) % 251);
                    checked += 1;
                }
            }
        }
        let total = u32::try_from(first + number(application, "octets")).unwrap();
        assert_eq!(server.state.receive_next, SequenceNumber(total + 1), "all data and the FIN");
        assert_eq!(client.state.receive_next, SequenceNumber(258), "the reply and the FIN");
        assert!(client.finished && server.finished);
        assert!(checked >= 100_000, "{checked}");
        let expected: &[_] = match name {
            "outage-new-address" => {
                &[(false, Accepted::Prove), (true, Accepted::Proof), (false, Accepted::Proven)]
            }
            _ => &[],
        };
        assert_eq!(changes, expected);
    }
}

#[test]
fn packets_written_from_nothing_are_those_of_the_record() {
    let run = run("short-upload");
    let datagrams = datagrams("short-upload");
    let modulus = octets(&run["rsa_key"], "n");
    let key = heddle_core::dtp::paper::PublicKey::new(&modulus, &[3]).unwrap();
    let flow_id = u32::from_str_radix(text(&run, "flow_id"), 16).unwrap();
    let mut payload = [0; 300];
    let length = write_syn_payload(&key, &mut payload).unwrap();
    let mut buffer = [0; 400];
    let header = Header::new(flow_id, 0, 0, Flags::SYN, 32767);
    let mut writer = PacketWriter::new(&mut buffer, header).unwrap();
    let id = hex::decode("6b002691390f4fd4e82ecf496b44da7c3e6e7eb2").unwrap().try_into().unwrap();
    writer.option(DtpOption::HostId(id)).unwrap();
    writer.option(DtpOption::WindowScale { shift: 4 }).unwrap();
    let octets = writer.finish(&payload[..length]).unwrap();
    // The record ends its list of options with zeros, as padding does.
    assert_eq!(buffer[..octets], datagrams[0].payload);
}
