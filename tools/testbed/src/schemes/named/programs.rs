//! What runs at the sites: switches, the controller, and applications made by others.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::NamedOptions;
use super::sites::{CONTROLLER, CONTROLLER_PORT, GATEWAY, SITES, Site, Sites};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::process::{Process, program};
use crate::shutdown::Shutdown;

/// How long a program may take to get ready. Many of them start on few CPUs.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Octets of content in a segment: it fits a packet of 1500 octets with its name, signature and headers.
const SEGMENT_OCTETS: usize = 1200;

/// The cost of a site's names.
const COST: u32 = 10;

/// The scripts, which lie beside the libraries that they use.
const SCRIPTS: [(&str, &str); 6] = [
    ("forwarder.mjs", include_str!("../../../named/forwarder.mjs")),
    ("serve.mjs", include_str!("../../../named/serve.mjs")),
    ("fetch.mjs", include_str!("../../../named/fetch.mjs")),
    ("ping.mjs", include_str!("../../../named/ping.mjs")),
    ("ping.py", include_str!("../../../named/ping.py")),
    ("announce.py", include_str!("../../../named/announce.py")),
];

/// The application for os-ken.
const OS_KEN: [(&str, &str); 4] = [
    ("run.py", include_str!("../../../../openflow/os-ken/run.py")),
    ("islands.py", include_str!("../../../../openflow/os-ken/islands.py")),
    ("ndn.py", include_str!("../../../../openflow/os-ken/ndn.py")),
    ("oxm.py", include_str!("../../../../openflow/os-ken/oxm.py")),
];

/// The program that finds names, for switches.
const NDN_PREFIX: &[u8] = include_bytes!("../../../../openflow/programs/ndn-prefix.o");

/// When the controller installs flows.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Before there is traffic.
    Proactive,
    /// At the first Interest.
    Reactive,
}

impl Mode {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proactive => "proactive",
            Self::Reactive => "reactive",
        }
    }
}

/// How the switches find names.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matching {
    /// By their own look-up.
    Name,
    /// By a program that the controller sends.
    Program,
}

/// Whose controller.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerKind {
    /// `heddle controller`.
    Heddle,
    /// The same application in os-ken.
    OsKen,
}

/// Whose switches.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchKind {
    /// `heddle-dpdk`.
    Heddle,
    /// Open vSwitch, which knows no names.
    OpenVswitch,
}

/// Where programs are and where their files go.
#[derive(Clone, Debug)]
pub struct Places {
    /// Our programs.
    pub programs: PathBuf,
    /// Where `tools/setup` has put Node, Python and the libraries.
    pub applications: PathBuf,
    /// Configurations and logs of this run.
    pub directory: PathBuf,
}

impl Places {
    fn python(&self) -> PathBuf {
        self.applications.join("venv/bin/python")
    }

    /// Writes the scripts to where their libraries are found.
    ///
    /// # Errors
    /// When the applications are not there.
    pub fn prepare(&self) -> Result<()> {
        for there in
            [self.python(), self.applications.join("node"), self.applications.join("node_modules")]
        {
            if !there.exists() {
                return Err(Error::Invalid(format!(
                    "{} is not there; `sudo tools/setup --named` installs the applications that the named testbed runs",
                    there.display()
                )));
            }
        }
        for (name, text) in SCRIPTS {
            let path = self.applications.join(name);
            std::fs::write(&path, text).map_err(Error::at("write", &path))?;
        }
        Ok(())
    }

    fn script(&self, name: &str, args: &[&str]) -> Command {
        let is_python = Path::new(name).extension().is_some_and(|extension| extension == "py");
        let runner = if is_python { self.python() } else { self.applications.join("node") };
        let mut command = Command::new(runner);
        command.arg(self.applications.join(name)).args(args).current_dir(&self.applications);
        command
    }

    fn start(&self, name: &str, namespace: &Namespace, command: Command) -> Result<Process> {
        Process::start(name, namespace, command, &self.directory)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).map_err(Error::at("write", &path))?;
        Ok(path)
    }
}

/// Starts the controller.
///
/// # Errors
/// When it does not get ready.
pub fn start_controller(
    sites: &Sites,
    places: &Places,
    NamedOptions { mode, matching, controller, .. }: &NamedOptions,
    shutdown: &Shutdown,
) -> Result<Process> {
    let mut text = format!(
        "mode = \"{}\"\nlisten = [\"tcp:{CONTROLLER}:{CONTROLLER_PORT}\"]\ngateway = \"{GATEWAY}\"\nhold_ms = 10000\necho_ms = 2000\n",
        mode.name()
    );
    if *matching == Matching::Program {
        let elf = places.directory.join("ndn-prefix.o");
        std::fs::write(&elf, NDN_PREFIX).map_err(Error::at("write", &elf))?;
        text +=
            &format!("matching = \"program\"\n[program]\nid = 1\nfile = \"{}\"\n", elf.display());
    }
    for site in &SITES {
        text += &format!(
            "[[island]]\nname = \"{}\"\ndatapath_id = \"{}\"\nforwarder = \"{}\"\nnext_hop = \"{}\"\n",
            site.name,
            site.number,
            site.forwarder(),
            site.router_mac()
        );
    }
    let path = places.write(&format!("controller-{}.toml", mode.name()), &text)?;
    let (command, word) = match controller {
        ControllerKind::Heddle => {
            let state = places.directory.join(format!("controller-{}.state", mode.name()));
            let mut command = Command::new(program(&places.programs, "heddle")?);
            command.args(["controller", "--json", "--config"]).arg(path).arg("--state").arg(state);
            (command, "ready")
        }
        ControllerKind::OsKen => {
            let python = places.applications.join("os-ken/bin/python");
            if !python.exists() {
                return Err(Error::Invalid(format!(
                    "{} is not there; `sudo tools/setup --tests` installs os-ken",
                    python.display()
                )));
            }
            let scripts = places.applications.join("os-ken-application");
            std::fs::create_dir_all(&scripts).map_err(Error::at("make", &scripts))?;
            for (name, text) in OS_KEN {
                let path = scripts.join(name);
                std::fs::write(&path, text).map_err(Error::at("write", &path))?;
            }
            let mut command = Command::new(python);
            command.arg(scripts.join("run.py")).arg("--config").arg(path);
            command.arg("--listen").arg(format!("{CONTROLLER}:{CONTROLLER_PORT}"));
            (command, "instantiating app os_ken.controller.ofp_handler")
        }
    };
    let mut process = places.start("controller", &sites.controller(), command)?;
    process.wait_for(word, READY_WITHIN, shutdown)?;
    Ok(process)
}

/// Starts a site's switch.
///
/// # Errors
/// When it does not get ready.
pub fn start_switch(
    sites: &Sites,
    places: &Places,
    site: &Site,
    shutdown: &Shutdown,
) -> Result<Process> {
    let text = format!(
        "[engine]\nname = \"named-{name}\"\nlcores = [0]\nidle = \"sleep\"\nhugepages = \"never\"\n\
         [switch]\ndatapath_id = \"00:00:00:00:00:00:00:0{number}\"\nmax_flows = 1024\n\
         controllers = [\"tcp:{CONTROLLER}:{CONTROLLER_PORT}\"]\nlisten = [\"tcp:127.0.0.1:6654\"]\n\
         [[port]]\nname = \"island\"\nvdev = \"net_af_packet0,iface=island,qdisc_bypass=0\"\n\
         [[port]]\nname = \"network\"\nvdev = \"net_af_packet1,iface=network,qdisc_bypass=0\"\n",
        name = site.name,
        number = site.number,
    );
    let path = places.write(&format!("switch-{}.toml", site.name), &text)?;
    let mut command = Command::new(program(&places.programs, "heddle-dpdk")?);
    command.arg("--json").arg("--config").arg(path);
    let mut process =
        places.start(&format!("switch-{}", site.name), &sites.switch(site), command)?;
    process.wait_for(" ready", READY_WITHIN, shutdown)?;
    Ok(process)
}

/// Starts a site's forwarder, its producers and what announces its names.
///
/// # Errors
/// When one does not get ready.
pub fn start_island(
    sites: &Sites,
    places: &Places,
    site: &Site,
    file: &Path,
    shutdown: &Shutdown,
) -> Result<Vec<Process>> {
    let namespace = sites.island(site);
    let (address, gateway) = (site.forwarder().to_string(), GATEWAY.to_string());
    let announced = format!("/{}={COST}", site.name);
    let (ping, segments) = (site.prefix("ping"), SEGMENT_OCTETS.to_string());
    let (file_prefix, file) = (site.prefix("file"), file.to_string_lossy().into_owned());
    let parts: [(&str, &str, Vec<&str>); 4] = [
        ("forwarder", "forwarder.mjs", vec![&address, &gateway]),
        ("ping-server", "ping.py", vec!["serve", &ping]),
        ("file-server", "serve.mjs", vec![&file_prefix, &file, &segments]),
        ("announcer", "announce.py", vec![&address, &announced]),
    ];
    let mut processes = Vec::new();
    for (what, script, args) in parts {
        let name = format!("{what}-{}", site.name);
        let mut process = places.start(&name, &namespace, places.script(script, &args))?;
        process.wait_for("ready", READY_WITHIN, shutdown)?;
        processes.push(process);
    }
    Ok(processes)
}

/// Round trips from a site to another's ping server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pings {
    /// Round-trip times of those that came back.
    pub rtt_ms: Vec<f64>,
}

/// A file that a consumer has fetched.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fetched {
    /// Its octets.
    pub octets: u64,
    /// The segments that it came in.
    pub segments: u64,
    /// How long that took.
    pub seconds: f64,
    /// What it hashes to.
    pub sha256: String,
    /// The most Interests that were on their way, as CUBIC allowed.
    pub window: f64,
}

/// Sends `count` Interests from a site to another, one after the other, by python-ndn or by NDNts.
///
/// # Errors
/// When the application fails.
pub fn ping(
    sites: &Sites,
    places: &Places,
    (from, to): (&Site, &Site),
    count: u32,
    by_python: bool,
    shutdown: &Shutdown,
) -> Result<Pings> {
    let (prefix, count) = (to.prefix("ping"), count.to_string());
    let command = if by_python {
        places.script("ping.py", &["ask", &prefix, &count])
    } else {
        places.script("ping.mjs", &[&prefix, &count])
    };
    run(sites, places, from, "ping", command, shutdown)
}

/// Fetches a site's file from another, by NDNts.
///
/// # Errors
/// When the application fails.
pub fn fetch(
    sites: &Sites,
    places: &Places,
    (from, to): (&Site, &Site),
    shutdown: &Shutdown,
) -> Result<Fetched> {
    let command = places.script("fetch.mjs", &[&to.prefix("file")]);
    run(sites, places, from, "fetch", command, shutdown)
}

/// Runs an application to its end and reads what it prints.
fn run<T: for<'de> Deserialize<'de>>(
    sites: &Sites,
    places: &Places,
    site: &Site,
    what: &str,
    command: Command,
    shutdown: &Shutdown,
) -> Result<T> {
    let name = format!("{what}-{}", site.name);
    let mut process = places.start(&name, &sites.island(site), command)?;
    let status = process.wait(shutdown)?;
    let output = process.output();
    match serde_json::from_str(&output) {
        Ok(read) if status.success() => Ok(read),
        _ => Err(Error::Process {
            name,
            what: format!("failed ({status})"),
            log: process.log() + &output,
        }),
    }
}
