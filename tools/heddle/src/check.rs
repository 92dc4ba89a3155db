//! `heddle check`: is a configuration right, and what does it mean?

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use heddle_host::config::{
    Coded, Config, ConfigError, Device, Endpoint, Engine, FailMode, Generation, Hugepages, Idle,
    Place, PortIndex, ProgramRunner, Role, Sending, Switch,
};
use heddle_host::units;
use serde::Serialize;

use crate::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The configuration of one engine
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Print JSON: the configuration with its defaults, or the problems
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a Config>,
    problems: Vec<Place>,
}

pub fn run(args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    let result = Config::load(&args.config);
    match (&result, args.json) {
        (Ok(config), false) => write!(out, "{}", summary(config))?,
        (Ok(config), true) => {
            json(&Answer { ok: true, config: Some(config), problems: Vec::new() }, out)?;
        }
        (Err(error), false) => eprint!("{}", report(error)),
        (Err(error), true) => {
            json(&Answer { ok: false, config: None, problems: error.places() }, out)?;
        }
    }
    result.map(|_| ()).map_err(|_| Failure::Reported)
}

fn json(answer: &Answer, out: &mut impl Write) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, answer).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

fn report(error: &ConfigError) -> String {
    let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    error.report(color)
}

/// The configuration in words and tables.
fn summary(config: &Config) -> String {
    let ports = config.ports.iter().map(|port| {
        let device = match &port.device {
            Device::Vdev(vdev) => vdev.clone(),
            Device::Pci(pci) => format!("pci {pci}"),
        };
        if config.switch.is_some() {
            return [port.name.clone(), format!("{} octets", port.mtu_octets), device];
        }
        let rate = port.rate_octets_per_s;
        let rate =
            rate.map_or_else(|| "no limit".to_owned(), |rate| units::rate(rate.get() as f64));
        [port.name.clone(), rate, device]
    });
    if let Some(switch) = &config.switch {
        return format!(
            "{}{}\n{}",
            engine(&config.engine),
            self::switch(switch, config.tables_octets()),
            units::listing(&["port", "longest frame", "device"], ports),
        );
    }
    let names = |ports: &[PortIndex]| {
        let names = ports.iter().filter_map(|&index| config.port(index));
        names.map(|port| port.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    let sessions = config.sessions.iter().map(|session| {
        [
            session.id.to_string(),
            session.role.name().to_owned(),
            session.source.map_or_else(|| "any".to_owned(), |source| source.to_string()),
            session.group.to_string(),
            names(session.inputs()),
            names(session.outputs()),
            generation(&session.role),
        ]
    });
    let header = ["session", "role", "source", "group", "from", "to", "generation"];
    format!(
        "{}{}\n{}\n{}",
        engine(&config.engine),
        coded(&config.coded, config.generations_octets()),
        units::listing(&["port", "rate", "device"], ports),
        units::listing(&header, sessions),
    )
}

fn engine(engine: &Engine) -> String {
    let cpus: Vec<String> = engine.lcores.iter().map(u32::to_string).collect();
    let idle = match engine.idle {
        Idle::Poll => "polls",
        Idle::Sleep => "sleeps when idle",
    };
    let memory = match engine.hugepages {
        Hugepages::Auto => format!("hugepages, or {} MiB without", engine.memory_mib),
        Hugepages::Require => "hugepages".to_owned(),
        Hugepages::Never => format!("{} MiB without hugepages", engine.memory_mib),
    };
    format!(
        "engine {} on CPU {}: {idle}; {} frame buffers in {memory}\n",
        engine.name,
        cpus.join(", "),
        units::count(engine.mbufs.into()),
    )
}

fn switch(switch: &Switch, octets: u64) -> String {
    let list = |endpoints: &[Endpoint]| {
        let texts: Vec<String> = endpoints.iter().map(Endpoint::to_string).collect();
        if texts.is_empty() { "nobody".to_owned() } else { texts.join(", ") }
    };
    let alone = match switch.fail_mode {
        FailMode::Secure => "keeps its flows",
        FailMode::Standalone => "floods",
    };
    let programs = match switch.programs {
        ProgramRunner::Jit => "compiled",
        ProgramRunner::Interpret => "interpreted",
    };
    format!(
        "switch {:016x}: {} flows; its tables take {}; programs are {programs}\n\
         control: connects to {}; listens on {}; without a controller it {alone}\n",
        switch.datapath_id,
        units::count(switch.max_flows.into()),
        units::octets(octets),
        list(&switch.controllers),
        list(&switch.listen).replace("nobody", "nothing"),
    )
}

fn coded(coded: &Coded, octets: u64) -> String {
    let sending = match coded.sending {
        Sending::Paced => "sends at the outputs' rates",
        Sending::Literal => "sends for each innovative arrival",
    };
    format!(
        "coded: IP protocol {}; {sending}; up to {} blocks of {} octets; {} generations a session, which is \
         forgotten after {} s; they take up to {}\n",
        coded.protocol,
        coded.max_generation_size,
        coded.max_block_octets,
        coded.ses_max_gen,
        coded.ses_time_out.as_secs(),
        units::octets(octets),
    )
}

fn generation(role: &Role) -> String {
    match role {
        Role::Source(source) => {
            let k = source.generation_size;
            let redundancy = match source.redundancy {
                0 => String::new(),
                n => format!(", {n} redundant"),
            };
            match source.generation {
                Generation::Datagram => format!("1 datagram in {k} blocks{redundancy}"),
                Generation::Packets => {
                    let flush_ms = source.flush.as_millis();
                    format!("{k} datagrams or {flush_ms} ms{redundancy}")
                }
            }
        }
        Role::Forwarder(_) => String::new(),
        Role::Destination(destination) => match destination.generation {
            Generation::Datagram => "1 datagram".to_owned(),
            Generation::Packets => "several datagrams".to_owned(),
        },
    }
}
