//! Ports made of rings, and frames for them.

#![allow(dead_code, reason = "not every test needs all of it")]

pub mod controlled;

use arrayvec::ArrayVec;
use dpdk::{
    Eal, EalConfig, Mbuf, Memory, Mempool, Port, PortConfig, RingReceiver, RingSender, Started,
    ring,
};
use heddle_core::flow::{Action, Fields, Flow, Instructions, Match, Timeouts};
use heddle_core::ndn::Name;
use heddle_core::node::PortId;
use heddle_core::wire::{
    Checksum, EtherType, EthernetHeader, Ipv4Fields, Ipv4Flags, Ipv4Header, UdpHeader,
};
use heddle_dpdk::engine::{Engine, Parts};
use heddle_dpdk::switch::datapath::Workers;
use heddle_host::config::Config;
use heddle_host::metrics::Stats;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::IntoBytes;

pub const A: PortId = PortId(0);
pub const B: PortId = PortId(1);
pub const C: PortId = PortId(2);

/// The first CPU that this process may use.
pub fn first_cpu() -> u32 {
    let list = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = list.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().split([',', '-']).next().unwrap().parse().unwrap()
}

/// EAL with so many lcores, all on one CPU, and a pool.
pub fn start(lcores: usize, mib: u32) -> (Eal, Mempool) {
    let config = EalConfig::new(format!("heddle-test-{}", std::process::id()))
        .lcores_on(vec![first_cpu(); lcores])
        .memory(Memory::WithoutHugepages { mib });
    let eal = Eal::init(&config).unwrap();
    let pool = Mempool::new(&eal, "frames", 8191).unwrap();
    (eal, pool)
}

/// The outer end of a port made of rings.
pub struct Host {
    pub to_engine: RingSender<Mbuf>,
    pub from_engine: RingReceiver<Mbuf>,
    pool: Mempool,
}

/// A port with one queue each way, and its outer end.
pub fn port(eal: &Eal, pool: &Mempool, name: &str) -> (Port<Started>, Host) {
    let (to_engine, input) = ring(eal, &format!("{name}_in"), 1024).unwrap();
    let (output, from_engine) = ring(eal, &format!("{name}_out"), 1024).unwrap();
    let port = Port::from_rings(eal, name, vec![input], vec![output]).unwrap();
    let port = port.configure(&PortConfig::default(), pool).unwrap().start().unwrap();
    (port, Host { to_engine, from_engine, pool: pool.clone() })
}

impl Host {
    /// Sends one frame.
    pub fn send(&mut self, octets: &[u8]) {
        let mut burst = ArrayVec::<Mbuf, 1>::new();
        burst.push(self.mbuf(octets));
        assert_eq!(self.to_engine.send(&mut burst), 1, "the ring has room");
    }

    pub fn mbuf(&self, octets: &[u8]) -> Mbuf {
        let mut frame = self.pool.allocate().unwrap();
        frame.append(octets.len()).unwrap().copy_from_slice(octets);
        frame
    }

    /// What has come since the last time.
    pub fn received(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut burst = ArrayVec::<Mbuf, 32>::new();
        while self.from_engine.receive(&mut burst) > 0 {
            all.extend(burst.drain(..).map(|frame| frame.bytes().to_vec()));
        }
        all
    }

    /// Waits for so many frames.
    #[track_caller]
    pub fn wait_for(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        until(&format!("{count} frames"), || {
            all.extend(self.received());
            all.len() >= count
        });
        assert_eq!(all.len(), count);
        all
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < give_up, "waited in vain for {what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

pub const HOST: [u8; 4] = [10, 0, 0, 1];
pub const ROUTER: [u8; 4] = [10, 0, 0, 2];

/// A UDP datagram in an Ethernet frame.
pub fn udp(payload: &[u8]) -> Vec<u8> {
    datagram(5000, payload)
}

pub fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let sum = Checksum::new().with(&HOST).with(&ROUTER).with_word(17).with_word(len);
    let sum = sum.with_word(40_000).with_word(port).with_word(len).with(payload).finish();
    let udp = UdpHeader::new(40_000, port, len, if sum == 0 { 0xffff } else { sum });
    let fields = Ipv4Fields {
        traffic_class: 0,
        identification: 1,
        flags: Ipv4Flags::DONT_FRAGMENT,
        ttl: 64,
        protocol: 17,
        source: HOST,
        destination: ROUTER,
    };
    let ip = Ipv4Header::new(fields, len.into());
    let ethernet = EthernetHeader::new([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], EtherType::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), payload].concat()
}

/// The TLV-VALUE of a name of these components.
pub fn name(components: &[&str]) -> Vec<u8> {
    let mut value = Vec::new();
    for component in components {
        value.extend([8, component.len() as u8]);
        value.extend(component.as_bytes());
    }
    value
}

/// An Interest for a name, with a Nonce, in a UDP datagram.
pub fn interest(components: &[&str]) -> Vec<u8> {
    let name = name(components);
    let mut inner = vec![7, name.len() as u8];
    inner.extend(name);
    inner.extend([0x0a, 4, 1, 2, 3, 4]);
    let mut packet = vec![5, inner.len() as u8];
    packet.extend(inner);
    datagram(6363, &packet)
}

pub fn config(lcores: &str, further: &str) -> Config {
    let mut text = format!(
        "[engine]\nname = \"test\"\nlcores = {lcores}\nidle = \"sleep\"\n[switch]\ndatapath_id = \"0000000000000001\"\n\
         listen = [\"tcp:127.0.0.1:6654\"]\n{further}\n"
    );
    for (number, port) in ["a", "b", "c"].iter().enumerate() {
        text += &format!("[[port]]\nname = \"{port}\"\nvdev = \"net_ring{number}\"\n");
    }
    Config::parse(&text, "test").unwrap()
}

pub fn ports(eal: &Eal, pool: &Mempool) -> (Vec<Port<Started>>, [Host; 3]) {
    let ends: Vec<(Port<Started>, Host)> =
        ["a", "b", "c"].iter().map(|name| port(eal, pool, name)).collect();
    let (ports, hosts): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    (ports, hosts.try_into().ok().unwrap())
}

/// Runs a switch while `test` works on it from another thread. What was counted.
pub fn with_switch(
    eal: &Eal,
    pool: &Mempool,
    config: &Config,
    test: impl FnOnce(&mut Workers, &mut [Host; 3]) + Send + 'static,
) -> Stats {
    let stop = Arc::new(AtomicBool::new(false));
    let (ports, mut hosts) = ports(eal, pool);
    let parts = Parts { eal: eal.clone(), pool: pool.clone(), ports };
    let switch = config.switch.as_ref().unwrap();
    let (engine, mut workers) = Engine::switch(config, switch, parts, &stop).unwrap();
    let outside = {
        /// Stops the engine whatever becomes of the test.
        struct StopOnDrop(Arc<AtomicBool>);
        impl Drop for StopOnDrop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stop = StopOnDrop(Arc::clone(&stop));
        std::thread::spawn(move || {
            let _stop = stop;
            test(&mut workers, &mut hosts);
        })
    };
    let stats = engine.run(&stop).unwrap();
    if let Err(panic) = outside.join() {
        eprintln!("{}", stats.tables());
        std::panic::resume_unwind(panic);
    }
    stats
}

pub fn sending(actions: &[Action]) -> Instructions {
    Instructions::applying(actions).unwrap()
}

/// A flow of table 0 for names under a prefix, or without one for frames that come in on a port.
pub fn flow<'a>(
    prefix: Option<&'a [u8]>,
    in_port: Option<PortId>,
    priority: u16,
    instructions: &'a Instructions,
) -> Flow<'a, 'a> {
    let mut matching =
        Match { name: prefix.map(|octets| Name::new(octets).unwrap()), ..Match::default() };
    if let Some(port) = in_port {
        // OpenFlow's ports count from 1.
        matching.fields = Fields { in_port: u32::from(port.0) + 1, ..Fields::NONE };
        matching.mask = Fields { in_port: u32::MAX, ..Fields::NONE };
    }
    Flow {
        table: 0,
        priority,
        matching,
        instructions,
        cookie: 7,
        timeouts: Timeouts::default(),
        flags: 0,
    }
}
