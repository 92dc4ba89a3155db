//! The four set-ups between two veth pairs: the kernel of one namespace sends as many frames as it can, the switch takes them with
//! net_af_packet and sends them to another namespace. The bench makes and removes both.
//!
//! CPU time counts while there are frames: rounds in which none comes in say nothing about the switch.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Wall};

use arrayvec::ArrayVec;
use dpdk::{Eal, Mbuf, Mempool, Port, PortConfig, RxQueue, Started, Tsc, TxQueue, thread_cpu_time};
use heddle_core::flow::{NoPrograms, Switch};
use heddle_core::node::{BURST, Instant};
use miette::{IntoDiagnostic, WrapErr, miette};

use super::report::Figure;
use super::rings::forward;
use super::setups::{TURNS, each};
use crate::allocations;

/// How long no frame may come before something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// The namespaces, and the process that sends in one of them.
struct Site {
    blaster: Option<Child>,
    names: [String; 2],
    interfaces: [String; 2],
}

impl Site {
    /// Two namespaces, each with an end of a veth pair whose other end stays here.
    fn new(cpu: u32) -> miette::Result<Self> {
        let id = std::process::id();
        remove_leftovers();
        let mut site = Self {
            blaster: None,
            names: ["west", "east"].map(|side| format!("heddle-perf-{side}-{id}")),
            // An interface's name has 15 octets at most.
            interfaces: ["w", "e"].map(|side| format!("hp{side}{id}")),
        };
        for (name, interface) in site.names.iter().zip(&site.interfaces) {
            let peer = format!("{interface}p");
            ip(&["netns", "add", name])?;
            ip(&["link", "add", interface, "type", "veth", "peer", "name", &peer, "netns", name])?;
            // Nothing but the bench's frames.
            ip(&["link", "set", interface, "addrgenmode", "none", "up"])?;
            ip(&["-n", name, "link", "set", &peer, "addrgenmode", "none", "up"])?;
        }
        let [west, _] = &site.names;
        let [interface, _] = &site.interfaces;
        let number = ip(&["-n", west, "-o", "link", "show", &format!("{interface}p")])?;
        let number = number.split(':').next().unwrap_or_default().trim().to_owned();
        let program = std::env::current_exe().into_diagnostic()?;
        let other =
            u32::from(cpu == 0 && std::thread::available_parallelism().is_ok_and(|n| n.get() > 1));
        let blaster = Command::new("ip")
            .args(["netns", "exec", west, "taskset", "-c", &other.to_string()])
            .arg(program)
            .args(["blast", "--interface", &number])
            .stdin(Stdio::null())
            .spawn();
        site.blaster = Some(blaster.into_diagnostic().wrap_err("frames cannot be sent")?);
        Ok(site)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut blaster) = self.blaster.take() {
            let _ = blaster.kill();
            let _ = blaster.wait();
        }
        for interface in &self.interfaces {
            let _ = ip(&["link", "del", interface]);
        }
        for name in &self.names {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

/// Removes the namespaces of runs that were ended before they could.
fn remove_leftovers() {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix("heddle-perf-").and_then(|rest| rest.split_once('-'));
        if process.is_some_and(|(_, id)| !Path::new("/proc").join(id).exists()) {
            let _ = ip(&["netns", "del", &name]);
        }
    }
}

/// Runs `ip` of iproute2.
fn ip(arguments: &[&str]) -> miette::Result<String> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .into_diagnostic()
        .wrap_err("`ip` of iproute2 cannot be run")?;
    if !output.status.success() {
        return Err(miette!(
            help = "Network namespaces need root; --without-veth leaves them out.",
            "`ip {}` fails: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Measures the four set-ups.
pub fn measure(
    eal: &Eal,
    pool: &Mempool,
    cpu: u32,
    seconds: Duration,
) -> miette::Result<Vec<Figure>> {
    let site = Site::new(cpu)?;
    let mut ports = Vec::new();
    for (index, interface) in site.interfaces.iter().enumerate() {
        let device = format!("net_af_packet{}", index + 90);
        let port = Port::virtual_device(eal, &device, &format!("iface={interface},qdisc_bypass=0"))
            .and_then(|port| port.configure(&PortConfig::default(), pool)?.start());
        ports.push(port.into_diagnostic()?);
    }
    let [west, east] = ports.as_mut_slice() else { return Err(miette!("two ports")) };
    let mut line = Line {
        west: west.take_rx(0).ok_or_else(|| miette!("no receive queue"))?,
        east: east.take_tx(0).ok_or_else(|| miette!("no transmit queue"))?,
        tsc: Tsc::new(eal),
    };
    let figures = each(|switch, figure| line.measure(pool, switch, seconds / TURNS, figure));
    drop(line);
    close(ports)?;
    drop(site);
    figures
}

/// Ports go before the interfaces under them.
fn close(ports: Vec<Port<Started>>) -> miette::Result<()> {
    for port in ports {
        port.stop().map_err(|error| miette!("a port does not stop: {error:?}"))?;
    }
    Ok(())
}

/// What a worker has.
struct Line {
    west: RxQueue,
    east: TxQueue,
    tsc: Tsc,
}

impl Line {
    fn measure(
        &mut self,
        pool: &Mempool,
        switch: &mut Switch<'_, NoPrograms>,
        cpu: Duration,
        figure: &mut Figure,
    ) -> miette::Result<()> {
        let (mut packets, mut spent) = (0, Duration::ZERO);
        let allocations_before = allocations::count();
        let mut last = Wall::now();
        while spent < cpu {
            let began = thread_cpu_time();
            let before = packets;
            // As long as frames come.
            for _ in 0..256 {
                let mut burst = ArrayVec::<Mbuf, BURST>::new();
                let count = self.west.receive(&mut burst);
                if count == 0 {
                    break;
                }
                packets += count as u64;
                let now = Instant::from_nanos(self.tsc.nanoseconds());
                let mut out = forward(now, pool, switch, burst);
                // What does not fit is freed: the kernel is slower than we are then.
                self.east.send(&mut out);
            }
            if packets > before {
                spent += thread_cpu_time().saturating_sub(began);
                last = Wall::now();
            } else if last.elapsed() > PATIENCE {
                return Err(miette!("no frame has come for {} s", PATIENCE.as_secs()));
            }
        }
        figure.add(packets, spent.as_secs_f64(), allocations::count() - allocations_before);
        Ok(())
    }
}
