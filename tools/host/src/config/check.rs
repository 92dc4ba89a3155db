//! From the file as written to the configuration as meant, with every problem on the way.

mod ports;
mod sessions;
mod switch;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use heddle_core::coded::MAX_SES_MAX_GEN;
use toml::Spanned;

use super::problem::Problem;
use super::{
    Coded, Config, Engine, Hugepages, MAX_BLOCK_OCTETS, MAX_GENERATION_SIZE,
    MAX_GENERATIONS_OCTETS, file,
};
use crate::units;

/// CPU numbers from here on are not CPUs but mistakes.
const MAX_CPU: i64 = 4095;

/// Workers that one engine can have, at most: DPDK's own bound on Debian.
const MAX_LCORES: usize = 128;

/// Octets of one frame buffer with its mbuf header, as the pool lays them out.
const MBUF_OCTETS: u64 = 2432;

/// IP protocol numbers that already mean something on any network, and what.
const TAKEN_PROTOCOLS: [(u8, &str); 7] = [
    (0, "reserved"),
    (1, "ICMP"),
    (2, "IGMP"),
    (4, "IP in IP"),
    (6, "TCP"),
    (17, "UDP"),
    (255, "reserved"),
];

/// What was found so far.
struct Findings {
    problems: Vec<Problem>,
}

impl Findings {
    fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// The number when it is in `range`; else a problem, and in its stead the nearest that is, so that what
    /// depends on it raises no problem of its own.
    fn number<T: TryFrom<i64> + Default>(
        &mut self,
        name: &str,
        value: &Spanned<i64>,
        range: RangeInclusive<i64>,
        unit: &str,
    ) -> T {
        let (&low, &high) = (range.start(), range.end());
        if range.contains(value.get_ref())
            && let Ok(number) = T::try_from(*value.get_ref())
        {
            return number;
        }
        let wanted = match high {
            i64::MAX => format!("{low} or more"),
            _ => format!("{low} to {high}"),
        };
        let remark = format!("must be {wanted} {unit}");
        self.add(
            Problem::new(format!("`{name}` is out of range"))
                .at(value.span(), remark.trim_end())
                .help(format!("give a whole number, {wanted}")),
        );
        T::try_from((*value.get_ref()).clamp(low, high)).unwrap_or_default()
    }

    /// The same for a value that may be absent: then `default`.
    fn number_or<T: TryFrom<i64> + Default>(
        &mut self,
        name: &str,
        value: &Option<Spanned<i64>>,
        range: RangeInclusive<i64>,
        unit: &str,
        default: T,
    ) -> T {
        match value {
            Some(value) => self.number(name, value, range, unit),
            None => default,
        }
    }

    /// Whether `name` is 1 to 32 characters, all of them letters, digits or one of `also`.
    fn name(&mut self, what: &str, name: &Spanned<String>, also: &str) {
        let text = name.get_ref();
        let remark = if text.is_empty() {
            "is empty".to_owned()
        } else if text.len() > 32 {
            format!("is {} characters long", text.chars().count())
        } else if let Some(bad) =
            text.chars().find(|&c| !c.is_ascii_alphanumeric() && !also.contains(c))
        {
            format!("{bad:?} cannot be in it")
        } else {
            return;
        };
        let also: Vec<String> = also.chars().map(|c| format!("`{c}`")).collect();
        self.add(
            Problem::new(format!("this cannot be the name of {what}"))
                .at(name.span(), remark)
                .help(format!(
                    "use 1 to 32 of the characters A-Z, a-z, 0-9 and {}",
                    also.join(", ")
                )),
        );
    }
}

/// The configuration that `file` means, or all that is wrong with it.
pub(super) fn check(file: &file::File) -> Result<Config, Vec<Problem>> {
    let mut findings = Findings { problems: Vec::new() };
    let engine = engine(&mut findings, &file.engine);
    let coded = match &file.coded {
        Some(table) => coded(&mut findings, table.get_ref()),
        None => Coded::default(),
    };
    let ports = ports::ports(&mut findings, file);
    let sessions = sessions::sessions(&mut findings, file, &coded);
    let switch = switch::switch(&mut findings, file);
    if !findings.problems.is_empty() {
        return Err(findings.problems);
    }
    let config = Config { engine, coded, ports, sessions, switch };
    memory(&mut findings, file, &config);
    switch::memory(&mut findings, file, config.tables_octets());
    if findings.problems.is_empty() { Ok(config) } else { Err(findings.problems) }
}

/// Whether the generations fit any machine. The workers would ask for their memory at once.
fn memory(findings: &mut Findings, file: &file::File, config: &Config) {
    let octets = config.generations_octets();
    if octets <= MAX_GENERATIONS_OCTETS {
        return;
    }
    let mut problem = Problem::new(format!(
        "the sessions could fill {} of memory with generations, and {} is the limit",
        units::octets(octets),
        units::octets(MAX_GENERATIONS_OCTETS)
    ));
    if let Some(coded) = file.coded.as_ref().map(Spanned::get_ref) {
        let factors = [
            &coded.max_generation_size,
            &coded.max_block_octets,
            &coded.ses_max_gen,
            &coded.max_sessions,
        ];
        for factor in factors.into_iter().flatten() {
            problem = problem.at(factor.span(), "a factor");
        }
    }
    findings.add(problem.help("lower one of them"));
}

fn engine(findings: &mut Findings, file: &file::Engine) -> Engine {
    findings.name("an engine", &file.name, "._-");
    let engine = Engine {
        name: file.name.get_ref().clone(),
        lcores: lcores(findings, &file.lcores),
        idle: file.idle,
        hugepages: file.hugepages,
        memory_mib: findings.number_or("memory_mib", &file.memory_mib, 16..=1_048_576, "MiB", 64),
        mbufs: findings.number_or("mbufs", &file.mbufs, 512..=16_777_216, "buffers", 4096),
        log: file.log,
    };
    let pool_mib = (u64::from(engine.mbufs) * MBUF_OCTETS).div_ceil(1 << 20);
    if engine.hugepages != Hugepages::Require
        && pool_mib > u64::from(engine.memory_mib)
        && let Some(place) = file.mbufs.as_ref().or(file.memory_mib.as_ref())
    {
        findings.add(
            Problem::new(format!(
                "the pool of {} buffers takes {pool_mib} MiB, and without hugepages there are {} MiB",
                engine.mbufs, engine.memory_mib
            ))
            .at(place.span(), "")
            .help("raise `memory_mib`, lower `mbufs`, or set hugepages = \"require\""),
        );
    }
    engine
}

fn lcores(findings: &mut Findings, file: &Spanned<Vec<Spanned<i64>>>) -> Vec<u32> {
    let help = "name the CPUs of the workers, for example lcores = [0]";
    let count = file.get_ref().len();
    if count == 0 {
        findings.add(
            Problem::new("`lcores` is empty: the engine would have no worker")
                .at(file.span(), "")
                .help(help),
        );
    } else if count > MAX_LCORES {
        findings.add(
            Problem::new(format!("{count} lcores are more than an engine can have"))
                .at(file.span(), format!("at most {MAX_LCORES}"))
                .help("name fewer CPUs"),
        );
    }
    let mut seen = HashMap::new();
    let mut cpus = Vec::with_capacity(count);
    for cpu in file.get_ref() {
        if let Some(first) = seen.insert(*cpu.get_ref(), cpu.span()) {
            findings.add(
                Problem::new(format!("CPU {} is named twice", cpu.get_ref()))
                    .at(cpu.span(), "the second time")
                    .at(first, "the first time")
                    .help("each worker has a CPU of its own; name each CPU once"),
            );
        }
        cpus.push(findings.number("lcores", cpu, 0..=MAX_CPU, ""));
    }
    cpus
}

fn coded(findings: &mut Findings, file: &file::Coded) -> Coded {
    let default = Coded::default();
    let coded = Coded {
        protocol: findings.number_or("protocol", &file.protocol, 0..=255, "", default.protocol),
        max_generation_size: findings.number_or(
            "max_generation_size",
            &file.max_generation_size,
            1..=MAX_GENERATION_SIZE.into(),
            "blocks",
            default.max_generation_size,
        ),
        max_block_octets: findings.number_or(
            "max_block_octets",
            &file.max_block_octets,
            8..=MAX_BLOCK_OCTETS.into(),
            "octets",
            default.max_block_octets,
        ),
        ses_max_gen: findings.number_or(
            "ses_max_gen",
            &file.ses_max_gen,
            1..=MAX_SES_MAX_GEN.into(),
            "generations",
            default.ses_max_gen,
        ),
        ses_time_out: Duration::from_secs(findings.number_or(
            "ses_time_out_s",
            &file.ses_time_out_s,
            1..=31_536_000,
            "seconds",
            default.ses_time_out.as_secs(),
        )),
        max_sessions: findings.number_or(
            "max_sessions",
            &file.max_sessions,
            1..=4096,
            "sessions",
            default.max_sessions,
        ),
        sending: file.sending,
    };
    if let Some(place) = &file.protocol
        && let Some((number, name)) =
            TAKEN_PROTOCOLS.iter().find(|(number, _)| i64::from(*number) == *place.get_ref())
    {
        findings.add(
            Problem::new(format!("IP protocol {number} is taken"))
                .at(place.span(), format!("this is {name}"))
                .help("use 253 or 254, which are for experiments, or a number that your network leaves free"),
        );
    }
    if let Some(place) = &file.max_block_octets
        && !coded.max_block_octets.is_multiple_of(8)
    {
        let down = coded.max_block_octets / 8 * 8;
        findings.add(
            Problem::new("a block is a multiple of 8 octets long")
                .at(place.span(), "")
                .help(format!("use {down} or {}", down + 8)),
        );
    }
    coded
}
