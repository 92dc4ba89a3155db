//! Someone on a switch's link sends what no honest node sends, while a file is under way. This test needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;

use std::collections::BTreeMap;
use std::ffi::{CString, c_int};
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bed::Bed;
use heddle_testbed::layout::GROUP;
use heddle_testbed::namespace::Namespace;
use socket2::{Domain, SockAddr, Socket, Type};

/// Frames of each kind that is malformed.
const OF_EACH: u64 = 50;

/// Generations that nobody sent, each with one packet.
const FLOOD: u16 = 3000;

/// Octets of an engine's memory that may come to be touched late, whoever sends what.
const GROWTH: u64 = 8 << 20;

/// The coded header's fields, as a hostile sender likes them.
#[derive(Copy, Clone)]
struct Coded {
    session_id: u8,
    session_len: u16,
    gen_id: u16,
    gen_size: u8,
    block_len: u8,
}

/// What an honest packet of the running session could say.
const PLAUSIBLE: Coded =
    Coded { session_id: 1, session_len: 0, gen_id: 0, gen_size: 3, block_len: 1 };

impl Coded {
    /// The header and `rest` octets after it.
    fn packet(self, rest: usize) -> Vec<u8> {
        let mut packet = vec![17, self.session_id];
        packet.extend(self.session_len.to_be_bytes());
        packet.extend(self.gen_id.to_be_bytes());
        packet.extend([self.gen_size, self.block_len]);
        packet.resize(8 + rest, 0xA5);
        packet
    }
}

/// An Ethernet frame with an IPv4 packet of protocol 253 from `source` to the testbed's group.
fn frame(source: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let [_, b, c, d] = GROUP.ip().octets();
    let mut frame = vec![0x01, 0x00, 0x5e, b & 0x7f, c, d, 2, 0, 0, 0, 0, 0xee, 0x08, 0x00];
    let len = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let mut header = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 16, 253, 0, 0];
    header.extend(source.octets());
    header.extend(GROUP.ip().octets());
    let sum: u32 =
        header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(header);
    frame.extend(payload);
    frame
}

/// Malformed frames by the counter that is to count them.
fn malformed(source: Ipv4Addr) -> Vec<(&'static str, Vec<u8>)> {
    let coded = |payload: Vec<u8>| frame(source, &payload);
    let good = coded(PLAUSIBLE.packet(3 + 8));
    let mut wrong_checksum = good.clone();
    wrong_checksum[24] ^= 1;
    let other_source = Ipv4Addr::new(192, 0, 2, 1);
    vec![
        ("frame_too_short", good[..14].to_vec()),
        ("frame_too_short", good[..25].to_vec()),
        ("ip_total_len", good[..good.len() - 1].to_vec()),
        ("ip_checksum", wrong_checksum),
        ("header_truncated", coded(PLAUSIBLE.packet(0)[..5].to_vec())),
        ("gen_size_zero", coded(Coded { gen_size: 0, ..PLAUSIBLE }.packet(8))),
        ("block_len_zero", coded(Coded { block_len: 0, ..PLAUSIBLE }.packet(3))),
        ("vector_truncated", coded(Coded { gen_size: 200, ..PLAUSIBLE }.packet(20))),
        ("block_len", coded(Coded { block_len: 2, ..PLAUSIBLE }.packet(3 + 8))),
        ("block_len", coded(Coded { block_len: 255, ..PLAUSIBLE }.packet(3 + 8))),
        ("gen_id", coded(Coded { session_len: 7, gen_id: 8, ..PLAUSIBLE }.packet(3 + 8))),
        ("generation_too_large", coded(Coded { gen_size: 17, ..PLAUSIBLE }.packet(17 + 8))),
        ("foreign_session", coded(Coded { session_id: 99, ..PLAUSIBLE }.packet(3 + 8))),
        ("foreign_session", frame(other_source, &PLAUSIBLE.packet(3 + 8))),
        ("session_len_changed", coded(Coded { session_len: 7, ..PLAUSIBLE }.packet(3 + 8))),
    ]
}

/// GEN_IDs of new generations of the very session that is under way, in a row and far from its own. Nothing in the
/// paper's header tells an honest packet from one that hits upon a generation under way: that one would be spoiled.
fn flood(live: u16) -> impl Iterator<Item = u16> {
    (0..FLOOD).map(move |number| live.wrapping_add(20_000 + number))
}

/// The GEN_ID of a coded packet that passes on an interface.
fn gen_id_on(namespace: &Namespace, interface: &str) -> u16 {
    let interface = CString::new(interface).unwrap();
    let listen = || {
        let mut socket = raw_socket(&interface, libc::ETH_P_ALL);
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut frame = [0; 2048];
        loop {
            let len = socket.read(&mut frame).unwrap();
            if len >= 42 && frame[12..14] == [0x08, 0x00] && frame[23] == 253 {
                return Ok(u16::from_be_bytes([frame[38], frame[39]]));
            }
        }
    };
    namespace.enter(listen).unwrap()
}

/// Sends the frames as they are from the end of a link that `node` has, past the limit of the link: what
/// is hostile is to be what the frames say, not that they fill the link.
fn inject(namespace: Namespace, interface: &str, frames: Vec<Vec<u8>>) -> JoinHandle<()> {
    let interface = CString::new(interface).unwrap();
    let send = move || {
        let socket = raw_socket(&interface, 0);
        for burst in frames.chunks(8) {
            for frame in burst {
                assert_eq!(socket.send(frame).unwrap(), frame.len());
            }
            // The switch may be slow, but its queue is to hold what honest neighbours send.
            thread::sleep(Duration::from_millis(4));
        }
        Ok(())
    };
    thread::spawn(move || namespace.enter(send).unwrap())
}

/// A socket for whole frames on an interface. It hears those of `protocol`, or none when that is 0.
fn raw_socket(interface: &CString, protocol: c_int) -> Socket {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None).unwrap();
    let bypass: c_int = 1;
    // SAFETY: the option's value is the integer `bypass`, which outlives the call, and its length is the integer's.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const bypass).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
    // SAFETY: `interface` is a string that ends with a zero octet.
    let index = unsafe { libc::if_nametoindex(interface.as_ptr()) };
    assert_ne!(index, 0, "no interface {interface:?}");
    let fill = |storage: *mut socket2::SockAddrStorage, len: *mut libc::socklen_t| {
        // SAFETY: the storage is zeroed, aligned for and larger than any socket address, `sockaddr_ll` included, and
        // `len` is valid to write; both are so by the contract of `try_init`.
        unsafe {
            let address = storage.cast::<libc::sockaddr_ll>();
            (*address).sll_family = libc::AF_PACKET as libc::sa_family_t;
            (*address).sll_protocol = (protocol as u16).to_be();
            (*address).sll_ifindex = index as c_int;
            *len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        }
        Ok(())
    };
    // SAFETY: `fill` leaves a whole address of the family that it names, and its length.
    let ((), address) = unsafe { SockAddr::try_init(fill) }.unwrap();
    socket.bind(&address).unwrap();
    socket
}

/// Octets of memory that the only process inside a namespace has touched.
fn resident_octets(namespace: &Namespace) -> u64 {
    let pids = Command::new("ip").args(["netns", "pids", namespace.name()]).output().unwrap();
    let pids = String::from_utf8(pids.stdout).unwrap();
    let pid: u32 = pids.trim().parse().unwrap_or_else(|_| panic!("not one process: {pids:?}"));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn hostile_frames_are_counted_and_harm_no_transfer() {
    const OCTETS: usize = 2 << 20;
    let mut bed = Bed::new("tbhostile", OCTETS);
    let source = bed.network.layout().sender_address();
    let (neighbour, switch) = (bed.network.namespace("A"), bed.network.namespace("E"));

    let mut frames = Vec::new();
    let mut expected = BTreeMap::new();
    for (counter, frame) in malformed(source) {
        *expected.entry(counter).or_insert(0) += OF_EACH;
        frames.extend(std::iter::repeat_n(frame, OF_EACH as usize));
    }

    let mut attack = None;
    let mut resident = 0;
    let result = bed.carry(|coded, progress| {
        if attack.is_none() && progress.octets > progress.total / 10 {
            // The session runs, so that there is something to harm.
            assert!(coded.stats("E").unwrap().counters["packets_recoded"] > 0);
            resident = resident_octets(&switch);
            let live = gen_id_on(&neighbour, "A-E");
            let mut frames = std::mem::take(&mut frames);
            frames.extend(
                flood(live)
                    .map(|gen_id| frame(source, &Coded { gen_id, ..PLAUSIBLE }.packet(3 + 8))),
            );
            attack = Some(inject(neighbour.clone(), "A-E", frames));
        }
    });
    attack.expect("the transfer has begun").join().unwrap();
    for host in &result.hosts {
        assert!(host.right, "{host:?}");
    }

    let growth = resident_octets(&switch).saturating_sub(resident);
    assert!(growth < GROWTH, "the engine has grown by {growth} octets");
    let counters = &bed.stop()["E"].counters;
    for (counter, count) in expected {
        assert_eq!(counters[counter], count, "{counter} in {counters:?}");
    }
    assert_eq!(
        counters["gen_id_implausible"] + counters["gen_id_late"],
        u64::from(FLOOD),
        "{counters:?}"
    );
    let sent = OCTETS.div_ceil(bed::PAYLOAD - 16) as u64;
    assert_eq!(
        counters["generations_started"], sent,
        "only honest generations take memory: {counters:?}"
    );
    assert_eq!(counters["sessions_started"], 1);
}
