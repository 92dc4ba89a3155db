//! Actions of our experimenter: into a tunnel and out of one.

use crate::ours::HEDDLE;
use crate::wire::{Reader, Write};
use crate::{Action, Refusal};
use heddle_core::flow::{Encapsulation, Endpoints, Tunnel};

const INTO: u16 = 1;
const OUT_OF: u16 = 2;
const HAS_KEY: u8 = 1;
const IS_IPV6: u8 = 2;

/// Reads what follows type and length.
pub(crate) fn decode(body: &mut Reader<'_>) -> Result<Action, Refusal> {
    if body.u32()? != HEDDLE {
        return Err(Refusal::ACTION_EXPERIMENTER);
    }
    let (kind, tunnel, flags) = (body.u16()?, body.u8()?, body.u8()?);
    if !matches!(kind, INTO | OUT_OF) {
        return Err(Refusal::ACTION_EXP_TYPE);
    }
    let key = body.u32()?;
    let (source_port, destination_port, ether_type) = (body.u16()?, body.u16()?, body.u16()?);
    let [ttl, _] = body.array()?;
    let inner = (body.array()?, body.array()?);
    if flags & !(HAS_KEY | IS_IPV6) != 0 {
        return Err(Refusal::ACTION_ARGUMENT);
    }
    let tunnel = match tunnel {
        0 => Tunnel::Gre { key: (flags & HAS_KEY != 0).then_some(key), inner },
        1 if key < 1 << 24 => Tunnel::Vxlan { network: key },
        2 => Tunnel::Udp { source_port, destination_port, ether_type, inner },
        _ => return Err(Refusal::ACTION_ARGUMENT),
    };
    if kind == OUT_OF {
        body.skip(4)?;
        return Ok(Action::Decapsulate(tunnel));
    }
    let (ethernet_destination, ethernet_source) = (body.array()?, body.array()?);
    let (source, destination) = (body.array::<16>()?, body.array::<16>()?);
    let endpoints = if flags & IS_IPV6 != 0 {
        Endpoints::V6(source, destination)
    } else {
        let first = |[a, b, c, d, ..]: [u8; 16]| [a, b, c, d];
        Endpoints::V4(first(source), first(destination))
    };
    Ok(Action::Encapsulate(Encapsulation {
        ethernet_destination,
        ethernet_source,
        endpoints,
        ttl,
        tunnel,
    }))
}

pub(crate) fn encode_into(all: &Encapsulation, out: &mut Vec<u8>) {
    let is_ipv6 = matches!(all.endpoints, Endpoints::V6(..));
    begin(INTO, &all.tunnel, if is_ipv6 { IS_IPV6 } else { 0 }, all.ttl, out);
    out.put(&all.ethernet_destination);
    out.put(&all.ethernet_source);
    match &all.endpoints {
        Endpoints::V4(source, destination) => {
            for address in [source, destination] {
                out.put(address);
                out.zeros(12);
            }
        }
        Endpoints::V6(source, destination) => {
            out.put(source);
            out.put(destination);
        }
    }
}

pub(crate) fn encode_out_of(tunnel: &Tunnel, out: &mut Vec<u8>) {
    begin(OUT_OF, tunnel, 0, 0, out);
    out.zeros(4);
}

fn begin(kind: u16, tunnel: &Tunnel, flags: u8, ttl: u8, out: &mut Vec<u8>) {
    const NONE: ([u8; 6], [u8; 6]) = ([0; 6], [0; 6]);
    let (number, key, ports, ether_type, inner) = match *tunnel {
        Tunnel::Gre { key, inner } => (0, key, (0, 0), 0, inner),
        Tunnel::Vxlan { network } => (1, Some(network), (0, 0), 0, NONE),
        Tunnel::Udp { source_port, destination_port, ether_type, inner } => {
            (2, None, (source_port, destination_port), ether_type, inner)
        }
    };
    let has_key = number == 0 && key.is_some();
    out.u16(0xffff);
    out.u16(0);
    out.u32(HEDDLE);
    out.u16(kind);
    out.u8(number);
    out.u8(flags | if has_key { HAS_KEY } else { 0 });
    out.u32(key.unwrap_or(0));
    out.u16(ports.0);
    out.u16(ports.1);
    out.u16(ether_type);
    out.u8(ttl);
    out.u8(0);
    out.put(&inner.0);
    out.put(&inner.1);
}
