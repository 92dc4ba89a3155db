//! What an engine has counted: the JSON that engines answer and print, and tools read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units;

/// All counters of one engine at one moment. Counters start at 0 with the engine and never fall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The engine's name, as in its configuration.
    pub name: String,
    /// Seconds since the engine started.
    pub uptime_s: f64,
    /// By the ports' names.
    pub ports: BTreeMap<String, PortStats>,
    /// By the counters' names: what the sessions did, and the drops by their reasons.
    pub counters: BTreeMap<String, u64>,
    /// What there is now, by names, as the flows and connections of a switch. These can fall.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gauges: BTreeMap<String, u64>,
    /// By the programs' numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, ProgramCounters>,
}

/// The counters of one program by which a switch's flows match.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramCounters {
    /// Octets of its file.
    pub octets: u64,
    /// Times that it ran.
    pub runs: u64,
    /// Packets that took the way of a flow by its verdict.
    pub hits: u64,
    /// Runs that ended without a verdict.
    pub faults: u64,
}

/// The counters of one port. Octets are those of Ethernet frames, without the FCS.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStats {
    /// Frames received.
    pub rx_frames: u64,
    /// Octets of the frames received.
    pub rx_octets: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Octets of the frames sent.
    pub tx_octets: u64,
    /// Frames that were to be sent, and that the device or the pacer did not take.
    pub tx_dropped: u64,
}

impl PortStats {
    /// What came since `earlier`; 0 for a counter that has fallen because the engine was restarted in between.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            rx_frames: self.rx_frames.saturating_sub(earlier.rx_frames),
            rx_octets: self.rx_octets.saturating_sub(earlier.rx_octets),
            tx_frames: self.tx_frames.saturating_sub(earlier.tx_frames),
            tx_octets: self.tx_octets.saturating_sub(earlier.tx_octets),
            tx_dropped: self.tx_dropped.saturating_sub(earlier.tx_dropped),
        }
    }
}

impl Stats {
    /// A table of the ports and one of the counters, for people. Counters that are 0 are left out.
    pub fn tables(&self) -> String {
        let ports = self.ports.iter().map(|(name, port)| {
            [
                name.clone(),
                units::count(port.rx_frames),
                units::octets(port.rx_octets),
                units::count(port.tx_frames),
                units::octets(port.tx_octets),
                units::count(port.tx_dropped),
            ]
        });
        let header = ["port", "rx frames", "rx", "tx frames", "tx", "tx dropped"];
        self.with_counters(&units::table(&header, ports))
    }

    /// The same with the rates since `earlier`, an older reading of the same engine.
    pub fn tables_since(&self, earlier: &Self) -> String {
        // A restarted engine counts from its own start.
        let elapsed_s = match self.uptime_s - earlier.uptime_s {
            elapsed_s if elapsed_s > 0.0 => elapsed_s,
            _ => self.uptime_s.max(f64::MIN_POSITIVE),
        };
        let ports = self.ports.iter().map(|(name, port)| {
            let before = earlier.ports.get(name).copied().unwrap_or_default();
            let new = port.since(&before);
            let per_s = |count: u64| count as f64 / elapsed_s;
            [
                name.clone(),
                units::frequency(per_s(new.rx_frames)),
                units::rate(per_s(new.rx_octets)),
                units::frequency(per_s(new.tx_frames)),
                units::rate(per_s(new.tx_octets)),
                units::frequency(per_s(new.tx_dropped)),
            ]
        });
        let header = ["port", "rx frames", "rx", "tx frames", "tx", "tx dropped"];
        self.with_counters(&units::table(&header, ports))
    }

    fn with_counters(&self, ports: &str) -> String {
        let counters = self.counters.iter().filter(|(_, count)| **count > 0);
        let rows = counters.map(|(name, count)| [name.clone(), units::count(*count)]);
        let counters = units::table(&["counter", "count"], rows);
        let mut text =
            format!("{}, up for {:.0} s\n\n{ports}\n{counters}", self.name, self.uptime_s);
        if !self.gauges.is_empty() {
            let rows = self.gauges.iter().map(|(name, count)| [name.clone(), units::count(*count)]);
            text += &format!("\n{}", units::table(&["now", "count"], rows));
        }
        if !self.programs.is_empty() {
            let rows = self.programs.iter().map(|(number, program)| {
                let [octets, runs, hits, faults] =
                    [program.octets, program.runs, program.hits, program.faults].map(units::count);
                [number.clone(), octets, runs, hits, faults]
            });
            let header = ["program", "octets", "runs", "hits", "faults"];
            text += &format!("\n{}", units::table(&header, rows));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"name":"E","uptime_s":12,"ports":{"a":{"rx_frames":1200,"rx_octets":64000,"tx_frames":0,
        "tx_octets":0,"tx_dropped":3}},"counters":{"innovative":7,"not_innovative":0}}"#;

    #[test]
    fn an_engine_s_answer_is_read_and_written() {
        let stats: Stats = serde_json::from_str(JSON).unwrap();
        assert_eq!(stats.uptime_s, 12.0);
        assert_eq!(stats.ports["a"].tx_dropped, 3);
        let again: Stats = serde_json::from_str(&serde_json::to_string(&stats).unwrap()).unwrap();
        assert_eq!(stats, again);
    }

    #[test]
    fn tables_leave_out_what_is_0() {
        let stats: Stats = serde_json::from_str(JSON).unwrap();
        let expected = "\
E, up for 12 s

port  rx frames        rx  tx frames   tx  tx dropped
a         1 200  62.5 KiB          0  0 B           3

counter     count
innovative      7
";
        assert_eq!(stats.tables(), expected);
    }

    #[test]
    fn a_switch_also_tells_what_there_is() {
        let mut stats: Stats = serde_json::from_str(JSON).unwrap();
        stats.gauges.insert("flows".into(), 1_000_000);
        let program = ProgramCounters { octets: 4096, runs: 2000, hits: 17, faults: 0 };
        stats.programs.insert("7".into(), program);
        let expected = "\
now        count
flows  1 000 000

program  octets   runs  hits  faults
7         4 096  2 000    17       0
";
        assert!(stats.tables().ends_with(expected), "{}", stats.tables());
        let again: Stats = serde_json::from_str(&serde_json::to_string(&stats).unwrap()).unwrap();
        assert_eq!(stats, again);
    }

    #[test]
    fn rates_are_those_between_two_readings() {
        let earlier: Stats = serde_json::from_str(JSON).unwrap();
        let mut later = earlier.clone();
        later.uptime_s += 2.0;
        let port = later.ports.get_mut("a").unwrap();
        port.rx_frames += 100;
        port.rx_octets += 90_000;
        let tables = later.tables_since(&earlier);
        assert_eq!(
            tables.lines().nth(3),
            Some("a         50 /s  45.0 KB/s       0 /s  0 B/s        0 /s")
        );
    }

    #[test]
    fn a_restarted_engine_has_no_negative_rates() {
        let earlier: Stats = serde_json::from_str(JSON).unwrap();
        let mut later = earlier.clone();
        later.uptime_s = 1.0;
        later.ports.insert("a".into(), PortStats { rx_frames: 10, ..PortStats::default() });
        let tables = later.tables_since(&earlier);
        assert_eq!(
            tables.lines().nth(3),
            Some("a          0 /s  0 B/s       0 /s  0 B/s        0 /s")
        );
    }
}
