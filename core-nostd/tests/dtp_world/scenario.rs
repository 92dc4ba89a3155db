//! What happens in a run, most of it drawn from the run's seed.

use super::Rng;
use heddle_core::dtp::modern::{Congestion, Pattern};

/// What happens in a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// Octets of each stream from the client, and of each answer.
    pub up: Vec<usize>,
    pub down: Vec<usize>,
    pub pattern: Pattern,
    pub suites: u8,
    pub congestion: Congestion,
    pub datagram: u16,
    pub buffer: usize,
    pub loss: f64,
    pub duplicate: f64,
    pub corrupt: f64,
    pub reorder: f64,
    pub delay_ms: f64,
    pub rate: f64,
    /// Start and length in seconds.
    pub outages: Vec<(f64, f64)>,
    pub flips: Vec<f64>,
    pub new_address_after_outage: bool,
    /// The platform tells of changes.
    pub events: bool,
    /// When the client's clock jumps, and by how many seconds.
    pub jumps: Vec<(f64, f64)>,
    /// When the server loses all it knows.
    pub server_restarts: Option<f64>,
    pub keep_alive_s: u32,
    /// Processes that die; others go on from the tickets that are on their disks.
    pub kills: Vec<Kill>,
    /// Seconds from one ticket to the next at most.
    pub ticket_every_s: f64,
    /// Applications end their directions. What has been acknowledged then cannot be had again, so a process that dies may find a stream reset.
    pub finishes: bool,
}

/// The death of processes.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Seconds from the beginning on.
    pub at_s: f64,
    pub client: bool,
    pub server: bool,
    /// How many of the next ones die between the write of the counted ticket and its use.
    pub deaths: u32,
    /// The client's next process has another address.
    pub moves: bool,
    /// How long the network is gone from then on.
    pub out_s: f64,
    /// The disk is gone too.
    pub loses_all: bool,
}

impl Kill {
    /// Of the server and its disk.
    pub fn of_all_of_the_server() -> Self {
        Self {
            at_s: 0.0,
            client: false,
            server: true,
            deaths: 0,
            moves: false,
            out_s: 0.0,
            loses_all: true,
        }
    }

    fn random(rng: &mut Rng) -> Self {
        let whom = rng.below(3);
        Self {
            at_s: rng.unit() * rng.unit() * 12.0,
            client: whom != 1,
            server: whom != 0,
            deaths: u32::from(rng.chance(0.2)),
            moves: rng.chance(0.5),
            out_s: if rng.chance(0.3) { rng.unit() * 40.0 } else { 0.0 },
            loses_all: false,
        }
    }
}

impl Scenario {
    /// A good network.
    pub fn calm(seed: u64) -> Self {
        Self {
            seed,
            up: vec![100_000],
            down: vec![100_000],
            pattern: Pattern::KnownServer,
            suites: 1,
            congestion: Congestion::Cubic,
            datagram: 1200,
            buffer: 1 << 16,
            loss: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            reorder: 0.0,
            delay_ms: 10.0,
            rate: 10e6,
            outages: vec![],
            flips: vec![],
            new_address_after_outage: false,
            events: true,
            jumps: vec![],
            server_restarts: None,
            keep_alive_s: 24 * 3600,
            kills: vec![],
            ticket_every_s: 1.0,
            finishes: true,
        }
    }

    pub fn random(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0x1234);
        let streams = 1 + rng.below(4) as usize;
        let size = |rng: &mut Rng| match rng.below(4) {
            0 => rng.below(100) as usize,
            1 => rng.below(20_000) as usize,
            _ => rng.below(200_000) as usize,
        };
        let hard = rng.unit();
        let mut chance = |most: f64| if rng.chance(0.5) { rng.unit() * most * hard } else { 0.0 };
        let (loss, duplicate, corrupt, reorder) =
            (chance(0.25), chance(0.2), chance(0.1), chance(0.3));
        let patterns = [
            Pattern::KnownServer,
            Pattern::KnownServerClientKey,
            Pattern::UnknownServer,
            Pattern::PreShared,
        ];
        let pattern = patterns[rng.below(4) as usize];
        let outages = (0..rng.below(3))
            .map(|_| {
                let length = match rng.below(3) {
                    0 => rng.unit(),
                    1 => rng.unit() * 60.0,
                    _ => rng.unit() * 4000.0,
                };
                (rng.unit() * 3.0, length)
            })
            .collect();
        let mut scenario = Self {
            seed,
            up: (0..streams).map(|_| size(&mut rng)).collect(),
            down: (0..streams).map(|_| size(&mut rng)).collect(),
            pattern,
            suites: 1 + rng.below(3) as u8,
            congestion: if rng.chance(0.5) { Congestion::Cubic } else { Congestion::Bbr },
            datagram: 1200 + rng.below(300) as u16,
            buffer: 1 << (14 + rng.below(4)),
            loss,
            duplicate,
            corrupt,
            reorder,
            delay_ms: 0.1 + rng.unit() * rng.unit() * 300.0,
            rate: 1e5 * 1000f64.powf(rng.unit()),
            outages,
            flips: (0..rng.below(4)).map(|_| rng.unit() * 5.0).collect(),
            new_address_after_outage: rng.chance(0.5),
            events: rng.chance(0.5),
            jumps: (0..rng.below(2))
                .map(|_| (rng.unit() * 4.0, rng.unit() * 200.0 - 100.0))
                .collect(),
            server_restarts: rng.chance(0.06).then(|| rng.unit() * 2.0),
            keep_alive_s: if rng.chance(0.2) { 60 + rng.below(600) as u32 } else { 24 * 3600 },
            kills: vec![],
            ticket_every_s: 1.0,
            finishes: true,
        };
        if rng.chance(0.4) {
            scenario.kills = (0..1 + rng.below(5)).map(|_| Kill::random(&mut rng)).collect();
            scenario.outages.extend(scenario.kills.iter().map(|kill| (kill.at_s, kill.out_s)));
            scenario.ticket_every_s = 0.01 * 300f64.powf(rng.unit());
            scenario.finishes = rng.chance(0.5);
        }
        scenario
    }
}
