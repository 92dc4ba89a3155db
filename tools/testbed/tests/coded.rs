//! A file over ten engines on DPDK, from an ordinary sender to twelve ordinary receivers. These tests need root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bed::{Bed, GENERATION_SIZE, PAYLOAD, RATE};
use heddle_testbed::schemes::{HostResult, TransferResult, coded_frame_octets, coded_sender_rate};
use heddle_testbed::shutdown::Shutdown;

/// Two networks of engines at a time would only take the CPUs from each other.
static ENGINES: Mutex<()> = Mutex::new(());

/// The results of the hosts on `switch`.
fn hosts_of<'r>(bed: &Bed, switch: &str, result: &'r TransferResult) -> Vec<&'r HostResult> {
    let topology = &bed.network.layout().topology;
    let hosts: Vec<&str> = topology.hosts_of(switch).map(|host| host.name.as_str()).collect();
    result.hosts.iter().filter(|host| hosts.contains(&host.host.as_str())).collect()
}

#[test]
fn a_file_reaches_twelve_hosts() {
    let _alone = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    const GENERATIONS: u64 = 750;
    // Full datagrams only, 16 octets of each the sender's own, so that all frames have the same size.
    let mut bed = Bed::new("tbcoded", GENERATIONS as usize * (PAYLOAD - 16));
    let result = bed.carry(|_, _| {});
    assert_eq!(result.hosts.len(), 12);
    for host in &result.hosts {
        assert!(host.right, "{host:?}");
        assert_eq!((host.received.duplicates, host.received.foreign), (0, 0), "{host:?}");
    }
    // No tree of these links carries more than one link does, headers included.
    assert!(result.lowest_goodput() > RATE as f64, "{} octets/s", result.lowest_goodput());

    // One packet on each link for each generation. Where a node has two inputs it may use the little that its links have
    // to spare for further combinations, and the kernels at the ends say a word to each other.
    let expected = GENERATIONS * coded_frame_octets(PAYLOAD, usize::from(GENERATION_SIZE)) as u64;
    for (link, &octets) in bed.network.layout().topology.links.iter().zip(&result.link_octets) {
        assert!(
            (expected..expected * 105 / 100).contains(&octets),
            "{}: {octets}, not {expected}",
            link.name()
        );
    }
    let stats = bed.stop();
    for (node, counter) in
        [("S", "datagrams_taken"), ("G", "datagrams_delivered"), ("H", "generations_decoded")]
    {
        assert_eq!(stats[node].counters[counter], GENERATIONS, "{counter} at {node}");
    }
    assert_eq!(stats["E"].counters["packets_innovative"], 2 * GENERATIONS);
}

/// D lies on one of H's three disjoint paths and on none of G's and I's.
#[test]
fn a_killed_switch_takes_only_its_own_share_with_it() {
    let _alone = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    // Long enough that a restart on a busy machine is over before the transfer is.
    const OCTETS: usize = 6 << 20;
    const GAP: Duration = Duration::from_millis(500);
    let mut bed = Bed::new("tbkill", OCTETS);
    let shutdown = Shutdown::manual();
    let (mut killed, mut restarted) = (None, None);
    let result = bed.carry(|coded, progress| match (killed, restarted) {
        (None, _) if progress.octets > progress.total / 8 => {
            coded.kill("D").unwrap();
            killed = Some((Instant::now(), progress.octets));
        }
        (Some((at, _)), None) if at.elapsed() > GAP => {
            coded.restart("D", &shutdown).unwrap();
            restarted = Some(at.elapsed());
        }
        _ => {}
    });
    let (_, had) = killed.unwrap();
    let gap = restarted.unwrap();
    for host in [hosts_of(&bed, "G", &result), hosts_of(&bed, "I", &result)].concat() {
        assert!(host.right, "{host:?}");
    }
    let hosts = hosts_of(&bed, "H", &result);
    assert_eq!(hosts.len(), 3);
    for host in hosts {
        let got = &host.received;
        assert!(
            !host.right && !got.missing.is_empty(),
            "without D nothing can be decoded at H: {host:?}"
        );
        // What came before the gap is there, and so is all that came after it, to the end of the file.
        let (first, last) = (got.missing[0], got.missing[got.missing.len() - 1]);
        assert!(first.0 >= had, "missing from {} on, and {had} was there: {host:?}", first.0);
        assert!(last.1 < got.total, "nothing came after the restart: {host:?}");
        let passed = coded_sender_rate(&bed.network.layout().topology, PAYLOAD, GENERATION_SIZE)
            * (gap.as_secs_f64() + 2.0);
        assert!(
            got.total - got.bytes < passed as u64,
            "more is missing than passed in {gap:?}: {host:?}"
        );
    }
    assert!(bed.stop()["D"].counters["packets_recoded"] > 0);
}
