//! Somebody on the path of two flows of DTP's `modern` suite, who sees, changes, repeats and invents whatever he likes but holds no key: both
//! transfers come through whole, no flow ends or moves, and each packet that is dropped is counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "for the simulation")]
mod dtp_world;

use dtp_world::{Rng, Store, address, connect, server_config};
use heddle_core::dtp::modern::{
    Answer, Config, Counter, Endpoint, Event, FlowId, Memory, ModernError, PathAddress, Pattern,
    Retry, Versions,
};
use heddle_core::node::Instant;

/// Datagrams of his own that he brings in, in all; to each that is real so many.
const INJECTED: usize = 100_000;
const TO_EACH: usize = 60;

/// Octets that each flow carries each way.
const OCTETS: usize = 500_000;

fn octet(flow: usize, down: bool, offset: usize) -> u8 {
    (offset.wrapping_mul(31) ^ (offset >> 9) ^ (flow * 77) ^ (usize::from(down) * 13)) as u8
}

/// What an application has given and taken on a flow's stream.
#[derive(Default)]
struct Line {
    given: usize,
    taken: usize,
}

struct End<'e, 'm> {
    endpoint: &'e mut Endpoint<'m>,
    flows: Vec<FlowId>,
    lines: [Line; 2],
    is_server: bool,
    refused: u64,
}

impl End<'_, '_> {
    fn work(&mut self) {
        while let Some((flow, event)) = self.endpoint.poll() {
            match event {
                Event::Incoming => self.flows.push(flow),
                Event::Closed(reason) => panic!("a flow ends: {reason:?}"),
                Event::Moved => panic!("a flow moves"),
                _ => {}
            }
        }
        for (number, (&flow, line)) in self.flows.iter().zip(&mut self.lines).enumerate() {
            let left = (OCTETS - line.given).min(4000);
            let octets: Vec<u8> =
                (0..left).map(|at| octet(number, self.is_server, line.given + at)).collect();
            line.given += self.endpoint.write(flow, 0, &octets).unwrap_or(0);
            let mut buffer = [0; 4000];
            while let Ok(Some(count @ 1..)) = self.endpoint.read(flow, 0, &mut buffer) {
                for &got in &buffer[..count] {
                    assert_eq!(got, octet(number, !self.is_server, line.taken));
                    line.taken += 1;
                }
            }
        }
    }

    fn take(
        &mut self,
        now: Instant,
        from: PathAddress,
        datagram: &[u8],
    ) -> Result<(), ModernError> {
        let result = self.endpoint.handle(now, from, &mut datagram.to_vec(), false);
        self.refused += u64::from(result.is_err());
        result
    }

    /// Drops by their reasons.
    fn drops(&self) -> u64 {
        ModernError::ALL.iter().map(|&error| self.endpoint.drops(error)).sum()
    }
}

/// Whoever listens, and what he has seen of both directions and flows.
struct Adversary {
    rng: Rng,
    seen: Vec<(bool, Vec<u8>)>,
    injected: usize,
}

impl Adversary {
    fn any_seen(&mut self) -> Vec<u8> {
        let at = self.rng.below(self.seen.len() as u64) as usize;
        self.seen[at].1.clone()
    }

    fn id_of(datagram: &[u8]) -> [u8; 16] {
        *datagram[1..].first_chunk().unwrap()
    }

    /// A datagram out of a real one; whether it may be a packet as its sender has made it.
    fn forge(&mut self, real: &[u8]) -> (Vec<u8>, bool) {
        let mut datagram = real.to_vec();
        let length = datagram.len();
        let kind = self.rng.below(12);
        match kind {
            0..4 => {
                for _ in 0..1 + self.rng.below(6) {
                    // Distinct octets, or two changes could undo each other.
                    let at = self.rng.below(length as u64) as usize;
                    datagram[at] = real[at] ^ (1 + self.rng.below(255) as u8);
                }
            }
            4 => datagram.truncate(self.rng.below(length as u64) as usize),
            5 => datagram.extend((0..1 + self.rng.below(40)).map(|octet| octet as u8)),
            // The head of one packet and the rest of another: of another flow, direction or time.
            6 if length > 41 => {
                let other = self.any_seen();
                if other.len() <= 41 || other == real {
                    datagram[length - 1] ^= 1;
                } else {
                    let cut = [1, 17, 25][self.rng.below(3) as usize];
                    datagram.splice(cut.., other[cut..].iter().copied());
                    if datagram == real || datagram == other {
                        datagram[0] ^= 0x80;
                    }
                }
            }
            // The id that everybody sees, and nothing that fits to it.
            7 => datagram[17.min(length - 1)..].fill_with(|| self.rng.next() as u8),
            8 | 9 => {
                let (id, other) = (Self::id_of(real), Self::id_of(&self.any_seen()));
                let mut out = [0; 300];
                let octets = match self.rng.below(3) {
                    0 => Retry { destination: id, source: other, token: &[7; 24] }.write(&mut out),
                    1 => Versions { destination: id, versions: &[2, 3] }.write(&mut out),
                    _ => {
                        let answer = Answer { destination: id, message: &[9; 200] };
                        answer.write_clear(&mut out).map(|clear| clear + 200)
                    }
                };
                datagram = out[..octets.unwrap()].to_vec();
            }
            _ => return (self.any_seen(), true),
        }
        (datagram, false)
    }
}

/// Hands a real datagram over, and those of the adversary's before and after it.
fn deliver(
    adversary: &mut Adversary,
    ends: &mut [End; 2],
    now: Instant,
    to_server: bool,
    real: Vec<u8>,
) {
    let real_from = if to_server { address(2, 1000) } else { address(1, 4444) };
    adversary.seen.push((to_server, real.clone()));
    let place = adversary.rng.below(TO_EACH as u64) as usize;
    for turn in 0..TO_EACH {
        if turn == place {
            let _ = ends[usize::from(to_server)].take(now, real_from, &real);
        }
        let (datagram, is_copy) = adversary.forge(&real);
        // To either end, as if from the peer or from anywhere.
        let to = if adversary.rng.chance(0.9) { to_server } else { !to_server };
        let peer = if to { address(2, 1000) } else { address(1, 4444) };
        let from = if adversary.rng.chance(0.5) { peer } else { address(66, 6) };
        let result = ends[usize::from(to)].take(now, from, &datagram);
        assert!(is_copy || result.is_err(), "{result:?}: {}", hex::encode(&datagram));
        adversary.injected += 1;
    }
}

#[test]
fn who_is_on_the_path_without_keys_disturbs_nothing() {
    let (mut client_store, mut server_store) =
        (Store::new(8, 4, 1 << 15), Store::new(16, 4, 1 << 15));
    let start = Instant::from_nanos(1_000_000_000_000);
    let (mut actives, flows, timers, budgets) = client_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let mut client = Endpoint::new(Config::default(), memory, [1; 32], start);
    let (mut actives, flows, timers, budgets) = server_store.actives();
    let memory = Memory { flows, timers, actives: &mut actives, budgets };
    let mut server = Endpoint::new(server_config(&[]), memory, [2; 32], start);

    let (mut now, mut buffer) = (start, [0; 2000]);
    let mut adversary = Adversary { rng: Rng(20), seen: Vec::new(), injected: 0 };
    let end = |endpoint, is_server| End {
        endpoint,
        flows: Vec::new(),
        lines: Default::default(),
        is_server,
        refused: 0,
    };
    let mut ends = [end(&mut client, false), end(&mut server, true)];
    // The flows are opened in peace, one after the other; he has seen it.
    for pattern in [Pattern::KnownServer, Pattern::PreShared] {
        let flow = ends[0].endpoint.connect(now, address(1, 4444), connect(pattern, 3600)).unwrap();
        for _ in 0..4 {
            for from in [0, 1] {
                while let Some(sent) = ends[from].endpoint.transmit(now, &mut buffer) {
                    let datagram = buffer[..sent.octets].to_vec();
                    let path = if from == 0 { address(2, 1000) } else { address(1, 4444) };
                    ends[1 - from].take(now, path, &datagram).unwrap();
                    adversary.seen.push((from == 0, datagram));
                }
            }
        }
        ends[0].endpoint.open_stream(flow).unwrap();
        ends[0].flows.push(flow);
        ends[1].work();
    }
    assert_eq!(ends[1].flows.len(), 2);

    let is_done =
        |ends: &[End; 2]| ends.iter().flat_map(|end| &end.lines).all(|line| line.taken == OCTETS);
    let (mut to_thief, mut steps) = (0, 0);
    while !is_done(&ends) || adversary.injected < INJECTED {
        steps += 1;
        assert!(steps < 60_000, "{} injected", adversary.injected);
        now = now.after(std::time::Duration::from_millis(1));
        ends.iter_mut().for_each(End::work);
        for from in [0, 1] {
            while let Some(sent) = ends[from].endpoint.transmit(now, &mut buffer) {
                if sent.path == address(66, 6) {
                    to_thief += sent.octets;
                    continue;
                }
                let datagram = buffer[..sent.octets].to_vec();
                deliver(&mut adversary, &mut ends, now, from == 0, datagram);
            }
        }
    }
    println!("{} injected, {to_thief} octets to the thief, {steps} ms", adversary.injected);
    for end in &mut ends {
        assert_eq!(end.drops(), end.refused, "every drop has its reason");
        assert_eq!(end.endpoint.counter(Counter::Moved), 0);
        assert!(end.endpoint.books_agree());
        for reason in [ModernError::Authentication, ModernError::Replay, ModernError::UnknownFlow] {
            assert!(end.endpoint.drops(reason) > 100, "{}", reason.name());
        }
    }
    for &flow in &ends[1].flows {
        assert_eq!(ends[1].endpoint.path(flow), Some(address(2, 1000)));
    }
}
