//! Engines between ports made of rings. EAL starts once in a process, so one test runs all the steps.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use arrayvec::ArrayVec;
use dpdk::{
    Eal, EalConfig, Mbuf, Memory, Mempool, Port, PortConfig, RingReceiver, RingSender, Started,
    Tsc, ring,
};
use heddle_core::coded::session_shard;
use heddle_core::node::Instant;
use heddle_core::wire::{
    Checksum, EtherType, EthernetHeader, Ipv4Fields, Ipv4Flags, Ipv4Header, UdpHeader,
    multicast_mac,
};
use heddle_dpdk::engine::Engine;
use heddle_host::config::Config;
use heddle_host::metrics::Stats;

const SOURCE: [u8; 4] = [10, 0, 0, 1];
const GROUPS: u8 = 8;
const DATAGRAMS: u8 = 20;
const PAYLOAD_OCTETS: usize = 1000;
/// Where the UDP payload of a frame begins.
const PAYLOAD_AT: usize = 14 + 20 + 8;

#[test]
fn engines_between_rings() {
    let list = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = list.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let cpu: u32 = line.trim().split([',', '-']).next().unwrap().parse().unwrap();
    let eal = EalConfig::new(format!("heddle-test-{}", std::process::id()))
        .lcores_on([cpu, cpu])
        .memory(Memory::WithoutHugepages { mib: 128 });
    let eal = Eal::init(&eal).unwrap();
    let pool = Mempool::new(&eal, "frames", 8191).unwrap();

    let coded = two_workers_share_ports_of_one_queue(&eal, &pool);
    a_destination_delivers_to_each_host(&eal, &pool, &coded);
    a_port_that_takes_nothing_costs_counted_frames_only(&eal, &pool);
    assert_eq!(pool.in_use(), 0, "every mbuf came home");
}

/// The outer end of a port made of rings.
struct Host {
    to_engine: RingSender<Mbuf>,
    from_engine: RingReceiver<Mbuf>,
}

/// A port with one queue each way that holds `capacity` frames, and its outer end.
fn port(eal: &Eal, pool: &Mempool, name: &str, capacity: u32) -> (Port<Started>, Host) {
    let (to_engine, input) = ring(eal, &format!("{name}_in"), capacity).unwrap();
    let (output, from_engine) = ring(eal, &format!("{name}_out"), capacity).unwrap();
    let port = Port::from_rings(eal, name, vec![input], vec![output]).unwrap();
    let port = port.configure(&PortConfig::default(), pool).unwrap().start().unwrap();
    (port, Host { to_engine, from_engine })
}

fn config(lcores: &str, ports: &[&str], sessions: &str) -> Config {
    let mut text = format!("[engine]\nname = \"test\"\nlcores = {lcores}\nidle = \"sleep\"\n");
    for (number, port) in ports.iter().enumerate() {
        text += &format!("[[port]]\nname = \"{port}\"\nvdev = \"net_ring{number}\"\n");
    }
    Config::parse(&(text + sessions), "test").unwrap()
}

/// Octet `at` of the payload of datagram `number` to `group`: no two datagrams are alike.
fn payload_octet(group: u8, number: u8, at: usize) -> u8 {
    match at {
        0 => group,
        1 => number,
        _ => (at as u8).wrapping_mul(number | 1).wrapping_add(group),
    }
}

fn udp_frame(pool: &Mempool, group: u8, number: u8) -> Mbuf {
    let destination = [239, 1, 1, group];
    let payload: Vec<u8> = (0..PAYLOAD_OCTETS).map(|at| payload_octet(group, number, at)).collect();
    let len = (8 + payload.len()) as u16;
    let sum = Checksum::new().with(&SOURCE).with(&destination).with_word(17).with_word(len);
    let sum = sum.with_word(40_000).with_word(5001).with_word(len).with(&payload).finish();
    let udp = UdpHeader::new(40_000, 5001, len, if sum == 0 { 0xffff } else { sum });
    let fields = Ipv4Fields {
        traffic_class: 0,
        identification: number.into(),
        flags: Ipv4Flags::DONT_FRAGMENT,
        ttl: 16,
        protocol: 17,
        source: SOURCE,
        destination,
    };
    let ip = Ipv4Header::new(fields, len.into());
    let ethernet =
        EthernetHeader::new(multicast_mac(destination), [2, 0, 0, 0, 0, 1], EtherType::IPV4);
    use zerocopy::IntoBytes;
    let octets = [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &payload].concat();
    let mut frame = pool.allocate().unwrap();
    frame.append(octets.len()).unwrap().copy_from_slice(&octets);
    frame
}

/// Stops the engine whatever becomes of the thread that holds it.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sources of eight groups on two lcores. Each port has one queue, which the first worker polls and fills, so half of the
/// work is handed over and back. Returns what was sent.
fn two_workers_share_ports_of_one_queue(eal: &Eal, pool: &Mempool) -> Vec<Vec<u8>> {
    let (inner_host, mut host) = port(eal, pool, "host", 1024);
    let (inner_a, mut a) = port(eal, pool, "a", 1024);
    let (inner_b, mut b) = port(eal, pool, "b", 1024);
    let session = |group: u8| {
        format!(
            "[[session]]\nrole = \"source\"\nid = {group}\nsource = \"10.0.0.1\"\ngroup = \"239.1.1.{group}\"\n\
             inputs = [\"host\"]\noutputs = [\"a\", \"b\"]\ngeneration_size = 3\n"
        )
    };
    let sessions: String = (0..GROUPS).map(session).collect();
    let config = config("[0, 1]", &["host", "a", "b"], &sessions);
    let ports = vec![inner_host, inner_a, inner_b];
    let engine = Engine::with_ports(&config, eal.clone(), pool.clone(), ports).unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let outside = {
        let stop = StopOnDrop(Arc::clone(&stop));
        let pool = pool.clone();
        std::thread::spawn(move || {
            let _stop = stop;
            let mut sent: Vec<Vec<u8>> = Vec::new();
            let expected = usize::from(GROUPS) * usize::from(DATAGRAMS) * 3;
            let mut all =
                (0..DATAGRAMS).flat_map(|number| (0..GROUPS).map(move |group| (group, number)));
            let give_up = Clock::now() + Duration::from_secs(30);
            let mut burst = ArrayVec::<Mbuf, 32>::new();
            while sent.len() < expected && Clock::now() < give_up {
                for (group, number) in all.by_ref().take(16) {
                    burst.push(udp_frame(&pool, group, number));
                }
                while !burst.is_empty() {
                    host.to_engine.send(&mut burst);
                }
                std::thread::sleep(Duration::from_millis(1));
                for end in [&mut a, &mut b] {
                    while end.from_engine.receive(&mut burst) > 0 {
                        sent.extend(burst.drain(..).map(|frame| frame.bytes().to_vec()));
                    }
                }
            }
            sent
        })
    };
    let stats = engine.run(&stop).unwrap();
    let sent = outside.join().unwrap();

    let datagrams = u64::from(GROUPS) * u64::from(DATAGRAMS);
    assert_eq!(sent.len() as u64, datagrams * 3, "{}", stats.tables());
    assert_eq!(stats.counters["datagrams_taken"], datagrams);
    assert_eq!(stats.counters["packets_coded"], datagrams * 3);
    let of_the_second: u64 =
        (0..GROUPS).map(|group| session_shard(SOURCE, [239, 1, 1, group], 2) as u64).sum();
    assert!((1..u64::from(GROUPS)).contains(&of_the_second), "both workers have sessions");
    assert_eq!(stats.counters["handed_over"], of_the_second * u64::from(DATAGRAMS));
    assert_eq!(stats.counters["handover_full"], 0);
    assert_eq!(stats.ports["host"].rx_frames, datagrams);
    assert_eq!(stats.ports["a"].tx_frames + stats.ports["b"].tx_frames, datagrams * 3);
    let octets: usize = sent.iter().map(Vec::len).sum();
    assert_eq!(stats.ports["a"].tx_octets + stats.ports["b"].tx_octets, octets as u64);
    assert_eq!(dropped(&stats), 0);
    sent
}

/// One worker, driven round by round: decodes what the sources sent, and replicates it to two hosts.
fn a_destination_delivers_to_each_host(eal: &Eal, pool: &Mempool, coded: &[Vec<u8>]) {
    let (inner_link, mut link) = port(eal, pool, "link", 1024);
    let (inner_h1, h1) = port(eal, pool, "h1", 1024);
    let (inner_h2, h2) = port(eal, pool, "h2", 1024);
    let session = |group: u8| {
        format!(
            "[[session]]\nrole = \"destination\"\nid = {group}\ngroup = \"239.1.1.{group}\"\ndeliver = [\"h1\", \"h2\"]\n"
        )
    };
    let sessions: String = (0..GROUPS).map(session).collect();
    let config = config("[0]", &["link", "h1", "h2"], &sessions);
    let ports = vec![inner_link, inner_h1, inner_h2];
    let mut engine = Engine::with_ports(&config, eal.clone(), pool.clone(), ports).unwrap();
    let worker = engine.first_worker().unwrap();
    let tsc = Tsc::new(eal);

    let mut hosts = [h1, h2];
    let mut delivered = [BTreeMap::new(), BTreeMap::new()];
    let mut burst = ArrayVec::<Mbuf, 32>::new();
    for frames in coded.chunks(32) {
        for octets in frames {
            let mut frame = pool.allocate().unwrap();
            frame.append(octets.len()).unwrap().copy_from_slice(octets);
            burst.push(frame);
        }
        assert_eq!(link.to_engine.send(&mut burst), frames.len());
        worker.round(Instant::from_nanos(tsc.nanoseconds()));
        for (host, delivered) in hosts.iter_mut().zip(&mut delivered) {
            while host.from_engine.receive(&mut burst) > 0 {
                for frame in burst.drain(..) {
                    let payload = &frame.bytes()[PAYLOAD_AT..];
                    assert_eq!(payload.len(), PAYLOAD_OCTETS);
                    let (group, number) = (payload[0], payload[1]);
                    let right = |at: usize| payload[at] == payload_octet(group, number, at);
                    assert!((0..PAYLOAD_OCTETS).all(right), "datagram {number} to group {group}");
                    *delivered.entry((group, number)).or_insert(0) += 1;
                }
            }
        }
    }
    for delivered in delivered {
        assert_eq!(delivered.len(), usize::from(GROUPS) * usize::from(DATAGRAMS));
        assert!(delivered.values().all(|times| *times == 1));
    }
}

/// An output that nobody empties: the engine retries a batch of frames, drops and counts the others, and holds no more than
/// the batch.
fn a_port_that_takes_nothing_costs_counted_frames_only(eal: &Eal, pool: &Mempool) {
    const CAPACITY: u32 = 16;
    let (inner_in, mut input) = port(eal, pool, "in", 1024);
    let (inner_out, mut output) = port(eal, pool, "out", CAPACITY);
    let session = "[[session]]\nrole = \"source\"\nid = 1\nsource = \"10.0.0.1\"\ngroup = \"239.1.1.1\"\ninputs = [\"in\"]\noutputs = [\"out\"]\n\
                   generation_size = 3\n";
    let config = config("[0]", &["in", "out"], session);
    let ports = vec![inner_in, inner_out];
    let mut engine = Engine::with_ports(&config, eal.clone(), pool.clone(), ports).unwrap();
    let worker = engine.first_worker().unwrap();
    let mut now = Instant::from_nanos(1);
    let mut burst = ArrayVec::<Mbuf, 32>::new();
    for number in 0..100 {
        burst.push(udp_frame(pool, 1, number));
        input.to_engine.send(&mut burst);
        worker.round(now);
        now = now.after(Duration::from_millis(1));
    }
    let waiting = pool.in_use();
    assert!((CAPACITY + 1..=CAPACITY + 64).contains(&waiting), "{waiting} mbufs are out");
    // What waited goes out as soon as there is room.
    let mut received = 0;
    for _ in 0..20 {
        while output.from_engine.receive(&mut burst) > 0 {
            received += burst.drain(..).count() as u32;
        }
        worker.round(now);
    }
    assert_eq!(received, waiting);
    let stop = Arc::new(AtomicBool::new(true));
    let stats = engine.run(&stop).unwrap();
    assert_eq!(stats.ports["out"].tx_frames, u64::from(received));
    assert_eq!(stats.ports["out"].tx_dropped, 300 - u64::from(received));
}

fn dropped(stats: &Stats) -> u64 {
    stats.ports.values().map(|port| port.tx_dropped).sum()
}
