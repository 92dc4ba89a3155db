//! `[[port]]`: names, devices, rates.

use std::collections::HashMap;
use std::num::NonZeroU64;

use toml::Spanned;

use super::Findings;
use crate::config::problem::Problem;
use crate::config::{
    DEFAULT_MTU_OCTETS, Device, MAX_MTU_OCTETS, MAX_PORTS, PciAddress, Port, file,
};

pub(super) fn ports(findings: &mut Findings, file: &file::File) -> Vec<Port> {
    if file.ports.is_empty() {
        findings.add(
            Problem::new("there is no [[port]]: the engine would have nothing to receive from")
                .at(file.engine.name.span(), "of this engine")
                .help("add a [[port]] with a `name`, and a `vdev` or `pci`"),
        );
    }
    if let Some(port) = file.ports.get(MAX_PORTS) {
        findings.add(
            Problem::new(format!("{} ports are more than an engine can have", file.ports.len()))
                .at(port.name.span(), format!("the first beyond {MAX_PORTS}"))
                .help("share the ports out between two engines"),
        );
    }
    let mut names = HashMap::new();
    let mut devices = HashMap::new();
    let mut ports = Vec::with_capacity(file.ports.len());
    for port in &file.ports {
        findings.name("a port", &port.name, "_");
        if let Some(first) = names.insert(port.name.get_ref(), port.name.span()) {
            findings.add(
                Problem::new(format!("two ports are called `{}`", port.name.get_ref()))
                    .at(port.name.span(), "the second")
                    .at(first, "the first")
                    .help("give each port a name of its own"),
            );
        }
        let Some((device, identity, place)) = device(findings, port) else {
            continue;
        };
        if let Some(first) = devices.insert(identity.clone(), place.clone()) {
            findings.add(
                Problem::new(format!("two ports are the device `{identity}`"))
                    .at(place, "the second")
                    .at(first, "the first")
                    .help(
                        "a device serves one port; a second vdev of a driver takes the next number",
                    ),
            );
        }
        let rate = port
            .rate
            .as_ref()
            .map(|rate| findings.number("rate", rate, 1..=i64::MAX, "octets per second"));
        let mtu = 64..=MAX_MTU_OCTETS.into();
        ports.push(Port {
            name: port.name.get_ref().clone(),
            device,
            rate_octets_per_s: rate.and_then(NonZeroU64::new),
            mtu_octets: findings.number_or("mtu", &port.mtu, mtu, "octets", DEFAULT_MTU_OCTETS),
        });
    }
    ports
}

/// The port's device, what tells it from the other devices, and where the file says so.
fn device(
    findings: &mut Findings,
    port: &file::Port,
) -> Option<(Device, String, std::ops::Range<usize>)> {
    let name = port.name.get_ref();
    match (&port.vdev, &port.pci) {
        (Some(vdev), None) => {
            let identity = vdev_name(findings, vdev)?;
            Some((Device::Vdev(vdev.get_ref().clone()), identity, vdev.span()))
        }
        (None, Some(pci)) => match pci_address(pci.get_ref()) {
            Some(address) => Some((Device::Pci(address), address.to_string(), pci.span())),
            None => {
                findings.add(
                    Problem::new("this is not a PCI address")
                        .at(pci.span(), "")
                        .help("write it as `lspci -D` does, for example \"0000:01:00.0\""),
                );
                None
            }
        },
        (Some(vdev), Some(pci)) => {
            findings.add(
                Problem::new(format!("port `{name}` has both a `vdev` and a `pci`"))
                    .at(pci.span(), "the one")
                    .at(vdev.span(), "the other")
                    .help("a port is one device; leave one of them out"),
            );
            None
        }
        (None, None) => {
            findings.add(
                Problem::new(format!("port `{name}` has no device"))
                    .at(port.name.span(), "of this port")
                    .help(
                        "add `vdev`, for example \"net_af_packet0,iface=eth1,qdisc_bypass=0\", or `pci`, \
                         for example \"0000:01:00.0\"",
                    ),
            );
            None
        }
    }
}

/// The device's name in `vdev`: the driver and a number, before the first comma.
fn vdev_name(findings: &mut Findings, vdev: &Spanned<String>) -> Option<String> {
    let mut parts = vdev.get_ref().split(',');
    let name = parts.next().unwrap_or_default();
    let arguments: Vec<&str> = parts.collect();
    let known = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if !known(&["net_", "eth_", "virtio_user"])
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        findings.add(
            Problem::new(format!("`{name}` is not a network device that DPDK can make"))
                .at(vdev.span(), "")
                .help("start with a driver and a number, for example \"net_af_packet0,iface=eth1,qdisc_bypass=0\""),
        );
        return None;
    }
    let has_interface = arguments
        .iter()
        .any(|argument| argument.strip_prefix("iface=").is_some_and(|iface| !iface.is_empty()));
    if known(&["net_af_packet", "net_af_xdp"]) && !has_interface {
        findings.add(
            Problem::new(format!("`{name}` needs the kernel's interface"))
                .at(vdev.span(), "")
                .help(format!("name it, for example \"{name},iface=eth1\"")),
        );
    }
    Some(name.to_owned())
}

/// `DDDD:BB:DD.F`, or `BB:DD.F` for domain 0.
fn pci_address(text: &str) -> Option<PciAddress> {
    let hex = |digits: &str, most: usize| {
        let fits =
            (1..=most).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        fits.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    };
    let (rest, function) = text.split_once('.')?;
    let mut parts = rest.rsplit(':');
    let (device, bus) = (parts.next()?, parts.next()?);
    let domain = parts.next().unwrap_or("0");
    let address = PciAddress {
        domain: hex(domain, 4)?,
        bus: u8::try_from(hex(bus, 2)?).ok()?,
        device: u8::try_from(hex(device, 2)?).ok()?,
        function: u8::try_from(hex(function, 1)?).ok()?,
    };
    (parts.next().is_none() && address.device < 32 && address.function < 8).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::pci_address;

    #[test]
    fn pci_addresses_are_read_with_and_without_a_domain() {
        let written = |text| pci_address(text).map(|address| address.to_string());
        assert_eq!(written("0000:01:00.0").as_deref(), Some("0000:01:00.0"));
        assert_eq!(written("3b:1F.7").as_deref(), Some("0000:3b:1f.7"));
        for wrong in
            ["", ".", "01:00", "0000:01:20.0", "0000:01:00.8", "1:2:3:4.0", "0000:+1:00.0", "01.0"]
        {
            assert_eq!(written(wrong), None, "{wrong}");
        }
    }
}
