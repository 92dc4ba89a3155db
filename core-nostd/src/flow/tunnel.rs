//! Tunnels: GRE, VXLAN and plain UDP, over IPv4 or IPv6.

use super::FlowError;
use super::apply::udp_checksum;
use super::fields::Fields;
use super::packet::Packet;
use crate::node::{Frame, PortId};
use crate::wire::{
    ETHERNET_HEADER_OCTETS, EtherType, EthernetHeader, GRE_HEADER_OCTETS, GreHeader,
    IP_PROTOCOL_GRE, IP_PROTOCOL_UDP, IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, Ipv4Addr, Ipv4Fields,
    Ipv4Flags, Ipv4Header, Ipv6Addr, Ipv6Header, MacAddress, UDP_HEADER_OCTETS, UdpHeader,
    VXLAN_HEADER_OCTETS, VXLAN_PORT, VxlanHeader,
};
use zerocopy::{FromBytes, IntoBytes};

/// What is inside the outer IP header.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// GRE around what the frame carries, without its Ethernet header (RFC 2784). Taken out, it gets these Ethernet addresses; whole
    /// frames (GRE type 0x6558) keep their own.
    Gre {
        /// The key (RFC 2890).
        key: Option<u32>,
        /// Ethernet addresses after the tunnel: destination, source.
        inner: (MacAddress, MacAddress),
    },
    /// VXLAN around the whole frame (RFC 7348).
    Vxlan {
        /// The network, 24 bits.
        network: u32,
    },
    /// UDP around what the frame carries, without its Ethernet header: a named-data packet of Ethernet becomes one of UDP.
    Udp {
        /// Source port.
        source_port: u16,
        /// Destination port.
        destination_port: u16,
        /// The EtherType that the packet has outside the tunnel.
        ether_type: u16,
        /// Ethernet addresses after the tunnel: destination, source.
        inner: (MacAddress, MacAddress),
    },
}

/// The addresses of the two ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoints {
    /// Over IPv4: source, destination.
    V4(Ipv4Addr, Ipv4Addr),
    /// Over IPv6: source, destination.
    V6(Ipv6Addr, Ipv6Addr),
}

/// All that the headers of a tunnel need.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// Outer Ethernet destination.
    pub ethernet_destination: MacAddress,
    /// Outer Ethernet source.
    pub ethernet_source: MacAddress,
    /// Outer IP addresses.
    pub endpoints: Endpoints,
    /// Outer TTL or hop limit.
    pub ttl: u8,
    /// The tunnel.
    pub tunnel: Tunnel,
}

impl Encapsulation {
    /// Puts the frame into the tunnel. Outer IPv4 packets may not be fragmented, and their UDP checksum is there also where IPv4 would
    /// allow to leave it out.
    pub(super) fn apply<F: Frame>(&self, frame: &mut F) -> Result<(), FlowError> {
        let packet = Packet::parse(frame.bytes(), PortId(0))?;
        let (layout, fields) = (packet.layout, packet.fields);
        let (strip, inner_type, tunnel_octets, flow) = match self.tunnel {
            Tunnel::Gre { key, .. } => {
                let octets = GRE_HEADER_OCTETS + if key.is_some() { 4 } else { 0 };
                (layout.network, fields.ether_type(), octets, None)
            }
            Tunnel::Vxlan { .. } => {
                let ports = (flow_port(&fields), VXLAN_PORT);
                (0, EtherType(0), UDP_HEADER_OCTETS + VXLAN_HEADER_OCTETS, Some(ports))
            }
            Tunnel::Udp { source_port, destination_port, .. } => (
                layout.network,
                EtherType(0),
                UDP_HEADER_OCTETS,
                Some((source_port, destination_port)),
            ),
        };
        // Padding stays behind; VXLAN carries frames as they are.
        if strip > 0 {
            frame.resize(layout.end).map_err(|_| FlowError::NoRoom)?;
        }
        let ip_octets = match self.endpoints {
            Endpoints::V4(..) => IPV4_HEADER_OCTETS,
            Endpoints::V6(..) => IPV6_HEADER_OCTETS,
        };
        let inner_octets = frame.bytes().len().saturating_sub(strip);
        let ip_payload = tunnel_octets + inner_octets;
        if ip_payload + ip_octets > usize::from(u16::MAX) {
            return Err(FlowError::NoRoom);
        }
        let outer_octets = ETHERNET_HEADER_OCTETS + ip_octets + tunnel_octets;
        let grow = outer_octets as isize - strip as isize;
        frame.move_head(grow).map_err(|_| FlowError::NoRoom)?;
        let mut writer = Writer(frame.bytes_mut());
        let (protocol, ether_type) = (
            if flow.is_some() { IP_PROTOCOL_UDP } else { IP_PROTOCOL_GRE },
            match self.endpoints {
                Endpoints::V4(..) => EtherType::IPV4,
                Endpoints::V6(..) => EtherType::IPV6,
            },
        );
        writer.put(
            EthernetHeader::new(self.ethernet_destination, self.ethernet_source, ether_type)
                .as_bytes(),
        )?;
        match self.endpoints {
            Endpoints::V4(source, destination) => {
                let fields = Ipv4Fields {
                    traffic_class: fields.dscp << 2 | fields.ecn,
                    identification: 0,
                    flags: Ipv4Flags::DONT_FRAGMENT,
                    ttl: self.ttl,
                    protocol,
                    source,
                    destination,
                };
                writer.put(Ipv4Header::new(fields, ip_payload).as_bytes())?;
            }
            Endpoints::V6(source, destination) => {
                let mut header =
                    Ipv6Header::new(source, destination, protocol, self.ttl, ip_payload as u16);
                header.set_traffic_class(fields.dscp << 2 | fields.ecn);
                writer.put(header.as_bytes())?;
            }
        }
        if let Some((source_port, destination_port)) = flow {
            let header = UdpHeader::new(source_port, destination_port, ip_payload as u16, 0);
            writer.put(header.as_bytes())?;
        }
        match self.tunnel {
            Tunnel::Gre { key, .. } => {
                writer.put(GreHeader::new(inner_type, key.is_some()).as_bytes())?;
                if let Some(key) = key {
                    writer.put(&key.to_be_bytes())?;
                }
            }
            Tunnel::Vxlan { network } => writer.put(VxlanHeader::new(network).as_bytes())?,
            Tunnel::Udp { .. } => {}
        }
        if flow.is_some() {
            let from = ETHERNET_HEADER_OCTETS + ip_octets;
            let datagram = frame.bytes_mut().get_mut(from..).ok_or(FlowError::NoRoom)?;
            let sum = udp_checksum(&self.endpoints, datagram);
            let field = datagram.get_mut(6..8).ok_or(FlowError::NoRoom)?;
            field.copy_from_slice(&sum.to_be_bytes());
        }
        Ok(())
    }
}

impl Tunnel {
    /// Takes the packet out of the tunnel, which it must have come through: the kind, the key or network, and the ports are compared.
    pub(super) fn remove<F: Frame>(&self, frame: &mut F) -> Result<u64, FlowError> {
        let (packet, _) = Packet::parse_headers(frame.bytes(), PortId(0))?;
        let at = packet.layout.transport.ok_or(FlowError::ActionMismatch)?;
        let end = packet.layout.end;
        let fields = packet.fields;
        let payload = frame.bytes().get(at..end).ok_or(FlowError::HeaderLen)?;
        let mismatch = FlowError::ActionMismatch;
        let (header_octets, ethernet, tunnel_id) = match self {
            Self::Gre { key, inner } => {
                let (header, options) =
                    GreHeader::ref_from_prefix(payload).map_err(|_| FlowError::HeaderLen)?;
                let octets = header.octets().ok_or(mismatch)?;
                if fields.ip_protocol != IP_PROTOCOL_GRE || octets > payload.len() {
                    return Err(mismatch);
                }
                // A checksum, if there is one, stands before the key, and a sequence number after it.
                let flags = payload.first().copied().unwrap_or(0);
                let options = if flags & 0x80 != 0 { options.get(4..) } else { Some(options) };
                let found = match (flags & 0x20 != 0, options) {
                    (true, Some(options)) => options.first_chunk().copied().map(u32::from_be_bytes),
                    _ => None,
                };
                if found != *key {
                    return Err(mismatch);
                }
                let ethernet = (header.protocol() != EtherType::ETHERNET_BRIDGING)
                    .then(|| EthernetHeader::new(inner.0, inner.1, header.protocol()));
                (octets, ethernet, u64::from(found.unwrap_or(0)))
            }
            Self::Vxlan { network } => {
                let header = payload.get(UDP_HEADER_OCTETS..).unwrap_or_default();
                let (header, _) =
                    VxlanHeader::ref_from_prefix(header).map_err(|_| FlowError::HeaderLen)?;
                let is_vxlan =
                    (fields.ip_protocol, fields.destination_port) == (IP_PROTOCOL_UDP, VXLAN_PORT);
                if !is_vxlan || header.vni() != Some(*network) {
                    return Err(mismatch);
                }
                (UDP_HEADER_OCTETS + VXLAN_HEADER_OCTETS, None, u64::from(*network))
            }
            Self::Udp { destination_port, ether_type, inner, .. } => {
                let found = (fields.ip_protocol, fields.destination_port);
                if found != (IP_PROTOCOL_UDP, *destination_port) {
                    return Err(mismatch);
                }
                let ethernet = EthernetHeader::new(inner.0, inner.1, EtherType(*ether_type));
                (UDP_HEADER_OCTETS, Some(ethernet), 0)
            }
        };
        if fields.ip_protocol == IP_PROTOCOL_UDP {
            check_udp(&fields, &packet.layout, payload)?;
        }
        let inner_at = at + header_octets;
        let ethernet_octets = ethernet.as_ref().map_or(0, |_| ETHERNET_HEADER_OCTETS);
        if inner_at > end || (ethernet.is_none() && end - inner_at < ETHERNET_HEADER_OCTETS) {
            return Err(FlowError::HeaderLen);
        }
        frame.resize(end).map_err(|_| FlowError::NoRoom)?;
        frame
            .move_head(ethernet_octets as isize - inner_at as isize)
            .map_err(|_| FlowError::NoRoom)?;
        if let Some(ethernet) = ethernet {
            Writer(frame.bytes_mut()).put(ethernet.as_bytes())?;
        }
        Ok(tunnel_id)
    }
}

/// A datagram that leaves a tunnel must be right: what is inside has no other cover on the way.
fn check_udp(
    fields: &Fields,
    layout: &super::packet::Layout,
    payload: &[u8],
) -> Result<(), FlowError> {
    let (header, datagram) = UdpHeader::datagram(payload).map_err(|_| FlowError::HeaderLen)?;
    if datagram.len() != payload.len() {
        return Err(FlowError::HeaderLen);
    }
    let is_absent = header.as_bytes().ends_with(&[0, 0]);
    let is_v4 = layout.is_ipv4_addresses(fields);
    if is_absent {
        // RFC 6935 allows it over IPv6 for tunnels too.
        return Ok(());
    }
    let endpoints = if is_v4 {
        let v4 = |address: &[u8; 16]| address.first_chunk::<4>().copied().unwrap_or_default();
        Endpoints::V4(v4(&fields.ip_source), v4(&fields.ip_destination))
    } else {
        Endpoints::V6(fields.ip_source, fields.ip_destination)
    };
    if super::apply::sum_of_datagram(&endpoints, datagram) == 0 {
        Ok(())
    } else {
        Err(FlowError::HeaderLen)
    }
}

/// A source port that keeps the packets of a flow on one path (RFC 7348, 5).
fn flow_port(fields: &Fields) -> u16 {
    let inside = Fields { in_port: 0, metadata: 0, ..*fields };
    let hash = inside
        .words()
        .iter()
        .fold(7, |hash, word| super::hash::mix(hash ^ word, 0x9E37_79B9_7F4A_7C15));
    0xc000 | (hash as u16 & 0x3fff)
}

/// Writes headers one after the other.
struct Writer<'o>(&'o mut [u8]);

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) -> Result<(), FlowError> {
        let out = core::mem::take(&mut self.0);
        let (to, rest) = out.split_at_mut_checked(octets.len()).ok_or(FlowError::NoRoom)?;
        to.copy_from_slice(octets);
        self.0 = rest;
        Ok(())
    }
}
