//! The ports as the control thread sees them: switched on or off by controllers, with a link or without.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dpdk::{Port, Started};
use heddle_core::node::PortId;
use heddle_host::config::{self, Device};

/// How often links are looked at.
const EVERY: Duration = Duration::from_millis(100);

/// The ports of a switch.
#[derive(Debug)]
pub struct Links {
    ports: Vec<Link>,
    looked_at: Option<Instant>,
}

#[derive(Debug)]
struct Link {
    port: Port<Started>,
    /// Where the kernel says what state its interface is in. Drivers on top of the kernel do not notice.
    interface: Option<PathBuf>,
    is_on: bool,
    is_linked: bool,
}

/// The state of a port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PortState {
    /// Whether controllers have it switched on.
    pub is_on: bool,
    /// Whether it has a link.
    pub is_linked: bool,
}

impl PortState {
    /// Whether frames can be sent on the port.
    pub const fn is_up(self) -> bool {
        self.is_on && self.is_linked
    }
}

/// Frames that a device could not give or take, as its driver counts them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Received, with no room for them.
    pub rx_dropped: u64,
    /// Received faulty.
    pub rx_errors: u64,
    /// Not sent.
    pub tx_errors: u64,
}

impl Links {
    /// The links of these ports, which are in the order of the configuration; all on and taken to be up until looked at.
    pub fn new(ports: Vec<Port<Started>>, config: &[config::Port]) -> Self {
        let ports = ports.into_iter().zip(config).map(|(port, config)| Link {
            port,
            interface: interface(&config.device).filter(|path| path.exists()),
            is_on: true,
            is_linked: true,
        });
        Self { ports: ports.collect(), looked_at: None }
    }

    /// The state of a port.
    pub fn state(&self, port: PortId) -> Option<PortState> {
        let link = self.ports.get(usize::from(port.0))?;
        Some(PortState { is_on: link.is_on, is_linked: link.is_linked })
    }

    /// Switches a port on or off.
    pub fn switch(&mut self, port: PortId, is_on: bool) {
        if let Some(link) = self.ports.get_mut(usize::from(port.0)) {
            link.is_on = is_on;
        }
    }

    /// Looks at the links, unless that was lately. Those that are no longer as they were.
    pub fn look(&mut self) -> Vec<PortId> {
        if self.looked_at.is_some_and(|at| at.elapsed() < EVERY) {
            return Vec::new();
        }
        self.looked_at = Some(Instant::now());
        let mut changed = Vec::new();
        for (number, link) in self.ports.iter_mut().enumerate() {
            let is_linked = link.is_linked_now();
            if std::mem::replace(&mut link.is_linked, is_linked) != is_linked {
                changed.push(PortId(number as u8));
            }
        }
        changed
    }

    /// What a port's device has lost.
    pub fn losses(&self, port: PortId) -> Losses {
        let link = self.ports.get(usize::from(port.0));
        link.and_then(|link| link.port.stats().ok()).map_or_else(Losses::default, |stats| Losses {
            rx_dropped: stats.rx_missed.saturating_add(stats.rx_no_mbuf),
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
        })
    }
}

impl Link {
    fn is_linked_now(&self) -> bool {
        match &self.interface {
            // An interface that is gone has no file and no link. Some devices, as loopback, do not know their state.
            Some(path) => {
                fs::read_to_string(path).is_ok_and(|state| matches!(state.trim(), "up" | "unknown"))
            }
            // A driver that does not answer is taken at its best.
            None => self.port.link().map_or(true, |link| link.up),
        }
    }
}

/// The kernel's file about the interface that a virtual device works on.
fn interface(device: &Device) -> Option<PathBuf> {
    let Device::Vdev(vdev) = device else { return None };
    let name = vdev.split(',').find_map(|argument| argument.strip_prefix("iface="))?;
    Some(Path::new("/sys/class/net").join(name).join("operstate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_those_that_devices_name() {
        let path = |vdev: &str| interface(&Device::Vdev(vdev.to_owned()));
        let expected = PathBuf::from("/sys/class/net/eth1/operstate");
        assert_eq!(path("net_af_packet0,iface=eth1,qdisc_bypass=0"), Some(expected));
        assert_eq!(path("net_ring0"), None);
    }
}
