//! Named data between three sites: what the seed's testbed did, with both of the controller's modes.

mod ovs;
mod programs;
mod sites;

pub use programs::{ControllerKind, Fetched, Matching, Mode, Pings, Places, SwitchKind};
pub use sites::{SITES, Site, Sites};

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::namespace::call;
use crate::process::{Process, program};
use crate::shutdown::Shutdown;

/// How long it may take until the switches are set up and know the names.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);

/// What is carried, and by which means.
#[derive(Copy, Clone, Debug)]
pub struct NamedOptions {
    /// When flows are installed.
    pub mode: Mode,
    /// How switches find names.
    pub matching: Matching,
    /// Whose controller.
    pub controller: ControllerKind,
    /// Whose switches.
    pub switches: SwitchKind,
    /// Round trips between each pair of sites.
    pub pings: u32,
}

/// What happened between two sites.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// The site that asked.
    pub from: String,
    /// The site that answered.
    pub to: String,
    /// Whose application asked for the round trips.
    pub pinged_by: String,
    /// The round trips.
    pub pings: Pings,
    /// The file.
    pub file: Fetched,
    /// Octets of content a second.
    pub goodput_octets_per_s: f64,
    /// Whether all round trips came back and the file is the one that was published.
    pub right: bool,
}

/// What happened in one mode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedReport {
    /// When flows were installed.
    pub mode: Mode,
    /// How switches found names.
    pub matching: Matching,
    /// Each ordered pair of sites.
    pub pairs: Vec<Pair>,
    /// Flows for names on each switch, as it says itself.
    pub flows: Vec<usize>,
    /// Interests that switches sent to the controller.
    pub interests_at_controller: u64,
    /// As many as there should be: one for each new prefix at each switch in reactive mode, none in proactive mode. Nothing for switches that know no
    /// names: they ask about each Interest.
    pub interests_expected: Option<u64>,
    /// Announcements that switches sent to the controller.
    pub announcements: u64,
    /// What the controller counted.
    pub controller: Value,
    /// Whether everything is as it should be.
    pub right: bool,
}

/// Runs one mode over sites that stand: starts everything, carries, and stops everything. `tell` hears what happens next.
///
/// # Errors
/// When something does not start or an application fails.
pub fn run_named(
    sites: &Sites,
    places: &Places,
    options: &NamedOptions,
    (file, sha256): (&Path, &str),
    shutdown: &Shutdown,
    mut tell: impl FnMut(&str),
) -> Result<NamedReport> {
    let NamedOptions { mode, matching, pings, .. } = *options;
    tell("the controller and three switches start");
    let controller = programs::start_controller(sites, places, options, shutdown)?;
    let (mut switches, mut others) = (Vec::new(), Vec::new());
    for site in &SITES {
        match options.switches {
            SwitchKind::Heddle => {
                switches.push(programs::start_switch(sites, places, site, shutdown)?);
            }
            SwitchKind::OpenVswitch => {
                others.extend(ovs::start_ovs(sites, places, site, shutdown)?);
            }
        }
    }
    let knows_names = options.switches == SwitchKind::Heddle;
    tell("forwarders, producers and announcers start");
    let mut islands = Vec::new();
    for site in &SITES {
        islands.extend(programs::start_island(sites, places, site, file, shutdown)?);
    }
    wait_until_known(&controller, shutdown)?;
    if mode == Mode::Proactive && knows_names {
        for site in &SITES {
            wait_for_flows(sites, places, site, SITES.len() - 1, shutdown)?;
        }
    }

    let mut pairs = Vec::new();
    for from in &SITES {
        for to in SITES.iter().filter(|to| *to != from) {
            tell(&format!("{} asks {}", from.name, to.name));
            let by_python = from.number < to.number;
            let answered = programs::ping(sites, places, (from, to), pings, by_python, shutdown)?;
            let fetched = programs::fetch(sites, places, (from, to), shutdown)?;
            pairs.push(Pair {
                from: from.name.into(),
                to: to.name.into(),
                pinged_by: if by_python { "python-ndn" } else { "NDNts" }.into(),
                right: answered.rtt_ms.len() == pings as usize && fetched.sha256 == sha256,
                goodput_octets_per_s: fetched.octets as f64
                    / fetched.seconds.max(f64::MIN_POSITIVE),
                pings: answered,
                file: fetched,
            });
        }
    }
    let flows = SITES
        .iter()
        .map(|site| named_flows(sites, places, site).map(|flows| flows.len()))
        .collect::<Result<Vec<_>>>()?;

    let output = controller.stop()?;
    // Every report is a value of its own; the last one is that of the end.
    let counted = last_report(&output)?;
    // What others have made has no more to say; our switches have to end in good order.
    islands.into_iter().chain(others).for_each(Process::kill);
    for switch in switches {
        switch.stop()?;
    }
    let count = |name: &str| counted["counters"][name].as_u64().unwrap_or(0);
    let remote = (SITES.len() * (SITES.len() - 1)) as u64;
    let each_once = if mode == Mode::Reactive { remote } else { 0 };
    let interests_expected = knows_names.then_some(each_once);
    let flows_expected = if knows_names { SITES.len() - 1 } else { 0 };
    let interests_at_controller = count("interests");
    let right = pairs.iter().all(|pair| pair.right)
        && interests_expected.is_none_or(|expected| expected == interests_at_controller)
        && flows.iter().all(|flows| *flows == flows_expected)
        && count("errors_from_switches") == 0;
    Ok(NamedReport {
        mode,
        matching,
        pairs,
        flows,
        interests_at_controller,
        interests_expected,
        announcements: count("announcements_by_packet_in"),
        controller: counted,
        right,
    })
}

/// The last of the JSON values that a controller has printed.
fn last_report(output: &str) -> Result<Value> {
    let values = serde_json::Deserializer::from_str(output).into_iter::<Value>();
    values
        .map_while(std::result::Result::ok)
        .last()
        .ok_or_else(|| Error::Invalid("the controller has not said what it counted".into()))
}

/// Waits until the controller has set up every switch and heard of every name.
fn wait_until_known(controller: &Process, shutdown: &Shutdown) -> Result<()> {
    let start = Instant::now();
    loop {
        controller.signal(rustix::process::Signal::USR1);
        shutdown.sleep(Duration::from_millis(100))?;
        let known = last_report(&controller.output()).is_ok_and(|status| {
            let all = SITES.len() as u64;
            status["switches"].as_u64() == Some(all) && status["prefixes"].as_u64() == Some(all)
        });
        if known {
            return Ok(());
        }
        if start.elapsed() > KNOWN_WITHIN {
            return Err(Error::Process {
                name: "controller".into(),
                what: "has not heard of all sites in time".into(),
                log: controller.log() + &controller.output(),
            });
        }
    }
}

/// The flows for names of a site's switch, as JSON.
fn named_flows(sites: &Sites, places: &Places, site: &Site) -> Result<Vec<Value>> {
    let heddle = program(&places.programs, "heddle")?;
    let heddle = heddle.to_string_lossy().into_owned();
    let text = sites.switch(site).enter(|| call(&heddle, &["name", "show", "--json"], ""))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::Invalid(format!("what the switch says is not understood: {error}")))
}

fn wait_for_flows(
    sites: &Sites,
    places: &Places,
    site: &Site,
    count: usize,
    shutdown: &Shutdown,
) -> Result<()> {
    let start = Instant::now();
    while named_flows(sites, places, site)?.len() < count {
        shutdown.sleep(Duration::from_millis(100))?;
        if start.elapsed() > KNOWN_WITHIN {
            return Err(Error::Busy(format!("the switch of {} has not got its flows", site.name)));
        }
    }
    Ok(())
}
