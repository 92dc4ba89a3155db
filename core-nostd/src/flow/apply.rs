//! Changes frames in place, with the checksums that cover what changes.

use super::FlowError;
use super::action::{Action, SetField};
use super::named::Envelope;
use super::packet::{Layout, Packet};
use super::tunnel::Endpoints;
use crate::ndn::{self, HopLimit, Payload, pass_hop};
use crate::node::{Frame, PortId};
use crate::wire::{Checksum, EtherType, IP_PROTOCOL_UDP, MPLS_ENTRY_OCTETS, MplsEntry};
use zerocopy::{FromBytes, IntoBytes};

const IP_PROTOCOL_TCP: u8 = 6;
const IP_PROTOCOL_ICMPV6: u8 = 58;

// Octets from the start of their headers.
const IPV4_TTL: usize = 8;
const IPV4_CHECKSUM: usize = 10;
const IPV6_HOP_LIMIT: usize = 7;

/// A frame that is being changed: its octets and where its headers are.
struct Edit<'f> {
    octets: &'f mut [u8],
    layout: Layout,
    is_ipv4: bool,
    protocol: u8,
    has_labels: bool,
}

impl Layout {
    /// Whether IP addresses are those of IPv4, as in a frame whose fields were found together with this layout.
    pub(super) fn is_ipv4_addresses(&self, fields: &super::Fields) -> bool {
        // IPv6 with such an address would be ::/96 in reverse, which is no unicast address of a host.
        let is_short = |address: &[u8; 16]| address.iter().skip(4).all(|octet| *octet == 0);
        fields.ether_type() == EtherType::IPV4
            || (fields.ether_type() != EtherType::IPV6
                && is_short(&fields.ip_source)
                && is_short(&fields.ip_destination))
    }
}

/// Carries out an action that changes the frame. Returns the key of the tunnel when the frame has left one.
pub(super) fn apply<F: Frame>(action: &Action, frame: &mut F) -> Result<Option<u64>, FlowError> {
    match action {
        Action::PushMpls(ether_type) => push_mpls(frame, *ether_type)?,
        Action::PopMpls(ether_type) => pop_mpls(frame, *ether_type)?,
        Action::Encapsulate(encapsulation) => encapsulation.apply(frame)?,
        Action::Decapsulate(tunnel) => return tunnel.remove(frame).map(Some),
        _ => {
            let (packet, _) = Packet::parse_headers(frame.bytes(), PortId(0))?;
            let layout = packet.layout;
            let protocol = packet.fields.ip_protocol;
            let is_ipv4 =
                layout.ip.and_then(|at| frame.bytes().get(at)).is_some_and(|octet| octet >> 4 == 4);
            let has_labels = is_mpls(packet.fields.ether_type());
            let octets = frame.bytes_mut();
            Edit { octets, layout, is_ipv4, protocol, has_labels }.apply(action)?;
        }
    }
    Ok(None)
}

const fn is_mpls(ether_type: EtherType) -> bool {
    matches!(ether_type, EtherType::MPLS | EtherType::MPLS_UPSTREAM)
}

impl Edit<'_> {
    fn apply(mut self, action: &Action) -> Result<(), FlowError> {
        match action {
            Action::SetField(field) => self.set_field(field),
            Action::SetTtl(ttl) => self.set_ttl(*ttl),
            Action::DecrementTtl => {
                let ttl = one_less(self.ttl()?)?;
                self.set_ttl(ttl)
            }
            Action::SetMplsTtl(ttl) => self.set_label(|entry| with_ttl(entry, *ttl)),
            Action::DecrementHopLimit => self.pass_hop(),
            Action::DecrementMplsTtl => {
                let ttl = one_less(self.label()?.ttl())?;
                self.set_label(|entry| with_ttl(entry, ttl))
            }
            Action::CopyTtlOut => {
                let ttl = match self.second_label()? {
                    Some((_, entry)) => entry.ttl(),
                    None => self.ttl()?,
                };
                self.set_label(|entry| with_ttl(entry, ttl))
            }
            Action::CopyTtlIn => {
                let ttl = self.label()?.ttl();
                match self.second_label()? {
                    Some((at, entry)) => self.put(at, with_ttl(entry, ttl).as_bytes()),
                    None => self.set_ttl(ttl),
                }
            }
            // The others are not changes of a field.
            _ => Ok(()),
        }
    }

    fn pass_hop(&mut self) -> Result<(), FlowError> {
        let Some(envelope) = Envelope::of(self.octets)? else { return Ok(()) };
        let end = envelope.at + envelope.octets;
        let octets = self.octets.get(envelope.at..end).ok_or(FlowError::HeaderLen)?;
        let Ok(packet) = ndn::Packet::parse(octets, envelope.link) else { return Ok(()) };
        let Payload::Interest(interest) = packet.payload else { return Ok(()) };
        match pass_hop(&interest) {
            Ok(HopLimit::Unlimited) => Ok(()),
            Ok(HopLimit::Left { hops, at }) => {
                let at = envelope.at + packet.octets.len() - interest.octets.len() + at;
                // Checksums are of 16-bit words, from the start of the datagram.
                let even = self.layout.transport.map_or(at, |transport| at - (at - transport) % 2);
                let old = self.get::<1>(at)?;
                let (mut from, mut to) = ([0; 2], [0; 2]);
                let half = at - even;
                for (place, octet) in [(&mut from, old), (&mut to, [hops])] {
                    if let ([octet], Some(place)) = (octet, place.get_mut(half)) {
                        *place = octet;
                    }
                }
                self.adjust_transport(&from, &to)?;
                self.put(at, &[hops])
            }
            Ok(HopLimit::LocalOnly) | Err(_) => Err(FlowError::HopLimitReached),
        }
    }

    fn set_field(&mut self, field: &SetField) -> Result<(), FlowError> {
        match *field {
            SetField::EthernetDestination(address) => self.put(0, &address),
            SetField::EthernetSource(address) => self.put(6, &address),
            SetField::Ipv4Source(address) => self.set_address(true, 12, &address),
            SetField::Ipv4Destination(address) => self.set_address(true, 16, &address),
            SetField::Ipv6Source(address) => self.set_address(false, 8, &address),
            SetField::Ipv6Destination(address) => self.set_address(false, 24, &address),
            SetField::FlowLabel(label) => {
                let at = self.ip(false)?;
                let [first, second, ..] = self.get::<4>(at)?;
                let [_, high, middle, low] = (label & 0xf_ffff).to_be_bytes();
                self.put(at, &[first, second & 0xf0 | high, middle, low])
            }
            SetField::Dscp(dscp) => self.set_class(|class| dscp << 2 | class & 3),
            SetField::Ecn(ecn) => self.set_class(|class| class & !3 | ecn & 3),
            SetField::UdpSource(port) => self.set_port(0, port),
            SetField::UdpDestination(port) => self.set_port(2, port),
            SetField::MplsLabel(label) => self.set_label(|entry| {
                MplsEntry::new(label, entry.traffic_class(), entry.is_bottom(), entry.ttl())
            }),
            SetField::MplsClass(class) => self.set_label(|entry| {
                MplsEntry::new(entry.label(), class, entry.is_bottom(), entry.ttl())
            }),
        }
    }

    fn set_class(&mut self, change: impl Fn(u8) -> u8) -> Result<(), FlowError> {
        let at = self.layout.ip.ok_or(FlowError::ActionMismatch)?;
        let [first, second] = self.get::<2>(at)?;
        if self.is_ipv4 {
            return self.replace_in_ipv4(at, [first, change(second)]);
        }
        let word = u16::from_be_bytes([first, second]);
        let class = u16::from(change((word >> 4) as u8));
        self.put(at, &(word & 0xf00f | class << 4).to_be_bytes())
    }

    fn set_port(&mut self, offset: usize, port: u16) -> Result<(), FlowError> {
        let at = self.layout.transport.ok_or(FlowError::ActionMismatch)?;
        if self.protocol != IP_PROTOCOL_UDP {
            return Err(FlowError::ActionMismatch);
        }
        let old = self.get::<2>(at + offset)?;
        let new = port.to_be_bytes();
        self.adjust_transport(&old, &new)?;
        self.put(at + offset, &new)
    }

    fn set_address(&mut self, is_ipv4: bool, offset: usize, new: &[u8]) -> Result<(), FlowError> {
        let at = self.ip(is_ipv4)? + offset;
        let old = self.octets.get(at..at + new.len()).ok_or(FlowError::HeaderLen)?;
        let mut kept = [0; 16];
        let kept = kept.get_mut(..old.len()).ok_or(FlowError::HeaderLen)?;
        kept.copy_from_slice(old);
        if is_ipv4 {
            self.adjust(at - offset + IPV4_CHECKSUM, kept, new)?;
        }
        self.adjust_transport(kept, new)?;
        self.put(at, new)
    }

    /// Where IP of this version is.
    fn ip(&self, is_ipv4: bool) -> Result<usize, FlowError> {
        self.layout.ip.filter(|_| self.is_ipv4 == is_ipv4).ok_or(FlowError::ActionMismatch)
    }

    fn ttl(&self) -> Result<u8, FlowError> {
        let at = self.layout.ip.ok_or(FlowError::ActionMismatch)?;
        let [ttl] = self.get(at + if self.is_ipv4 { IPV4_TTL } else { IPV6_HOP_LIMIT })?;
        Ok(ttl)
    }

    fn set_ttl(&mut self, ttl: u8) -> Result<(), FlowError> {
        let at = self.layout.ip.ok_or(FlowError::ActionMismatch)?;
        if !self.is_ipv4 {
            return self.put(at + IPV6_HOP_LIMIT, &[ttl]);
        }
        let [_, protocol] = self.get(at + IPV4_TTL)?;
        let old = self.get::<2>(at + IPV4_TTL)?;
        let new = [ttl, protocol];
        self.adjust(at + IPV4_CHECKSUM, &old, &new)?;
        self.put(at + IPV4_TTL, &new)
    }

    /// Replaces a word of the IPv4 header.
    fn replace_in_ipv4(&mut self, at: usize, new: [u8; 2]) -> Result<(), FlowError> {
        let old = self.get::<2>(at)?;
        let ip = self.layout.ip.ok_or(FlowError::ActionMismatch)?;
        self.adjust(ip + IPV4_CHECKSUM, &old, &new)?;
        self.put(at, &new)
    }

    fn label(&self) -> Result<MplsEntry, FlowError> {
        if !self.has_labels {
            return Err(FlowError::ActionMismatch);
        }
        let octets: [u8; MPLS_ENTRY_OCTETS] = self.get(self.layout.network)?;
        MplsEntry::read_from_bytes(&octets).map_err(|_| FlowError::HeaderLen)
    }

    /// The entry inside the outermost one, and its place.
    fn second_label(&self) -> Result<Option<(usize, MplsEntry)>, FlowError> {
        if self.label()?.is_bottom() {
            return Ok(None);
        }
        let at = self.layout.network + MPLS_ENTRY_OCTETS;
        let octets: [u8; MPLS_ENTRY_OCTETS] = self.get(at)?;
        let entry = MplsEntry::read_from_bytes(&octets).map_err(|_| FlowError::HeaderLen)?;
        Ok(Some((at, entry)))
    }

    fn set_label(&mut self, change: impl Fn(MplsEntry) -> MplsEntry) -> Result<(), FlowError> {
        let entry = change(self.label()?);
        self.put(self.layout.network, entry.as_bytes())
    }

    fn get<const N: usize>(&self, at: usize) -> Result<[u8; N], FlowError> {
        let octets = self.octets.get(at..).and_then(<[u8]>::first_chunk).copied();
        octets.ok_or(FlowError::HeaderLen)
    }

    fn put(&mut self, at: usize, octets: &[u8]) -> Result<(), FlowError> {
        let to = self.octets.get_mut(at..at + octets.len()).ok_or(FlowError::HeaderLen)?;
        to.copy_from_slice(octets);
        Ok(())
    }

    /// Corrects the checksum at `at` for octets that change from `old` to `new` (RFC 1624).
    fn adjust(&mut self, at: usize, old: &[u8], new: &[u8]) -> Result<u16, FlowError> {
        let sum = u16::from_be_bytes(self.get(at)?);
        // HC' = ~(~HC + ~m + m'): the complement of the old octets' sum is what `finish` gives.
        let without = Checksum::new().with(old).finish();
        let sum = Checksum::new().with_word(!sum).with_word(without).with(new).finish();
        self.put(at, &sum.to_be_bytes())?;
        Ok(sum)
    }

    /// The same for the checksum of what IP carries, where that covers addresses and ports.
    fn adjust_transport(&mut self, old: &[u8], new: &[u8]) -> Result<(), FlowError> {
        let Some(transport) = self.layout.transport else { return Ok(()) };
        let offset = match self.protocol {
            IP_PROTOCOL_UDP => 6,
            IP_PROTOCOL_TCP => 16,
            IP_PROTOCOL_ICMPV6 if !self.is_ipv4 => 2,
            _ => return Ok(()),
        };
        let at = transport + offset;
        // The first fragment of a packet may end before it.
        if at + 2 > self.layout.end {
            return Ok(());
        }
        let is_udp = self.protocol == IP_PROTOCOL_UDP;
        if is_udp && self.get::<2>(at)? == [0, 0] {
            return Ok(());
        }
        if self.adjust(at, old, new)? == 0 && is_udp {
            // Zero says that there is none (RFC 768).
            self.put(at, &[0xff, 0xff])?;
        }
        Ok(())
    }
}

fn with_ttl(entry: MplsEntry, ttl: u8) -> MplsEntry {
    MplsEntry::new(entry.label(), entry.traffic_class(), entry.is_bottom(), ttl)
}

const fn one_less(ttl: u8) -> Result<u8, FlowError> {
    if ttl <= 1 { Err(FlowError::TtlExpired) } else { Ok(ttl - 1) }
}

fn push_mpls<F: Frame>(frame: &mut F, ether_type: u16) -> Result<(), FlowError> {
    if !is_mpls(EtherType(ether_type)) {
        return Err(FlowError::ActionMismatch);
    }
    let (packet, _) = Packet::parse_headers(frame.bytes(), PortId(0))?;
    let (layout, fields) = (packet.layout, packet.fields);
    let octets = frame.bytes();
    let entry = if is_mpls(fields.ether_type()) {
        let outermost = octets.get(layout.network..).unwrap_or_default();
        let (outermost, _) =
            MplsEntry::read_from_prefix(outermost).map_err(|_| FlowError::HeaderLen)?;
        MplsEntry::new(outermost.label(), outermost.traffic_class(), false, outermost.ttl())
    } else {
        let ttl = match fields.ether_type() {
            EtherType::IPV4 => octets.get(layout.network + IPV4_TTL),
            EtherType::IPV6 => octets.get(layout.network + IPV6_HOP_LIMIT),
            _ => None,
        };
        MplsEntry::new(0, 0, true, ttl.copied().unwrap_or(0))
    };
    frame.move_head(MPLS_ENTRY_OCTETS as isize).map_err(|_| FlowError::NoRoom)?;
    let octets = frame.bytes_mut();
    // Ethernet and its tags move out to make room between them and the packet.
    let moved = octets.get_mut(..layout.network + MPLS_ENTRY_OCTETS).ok_or(FlowError::HeaderLen)?;
    if moved.len() > MPLS_ENTRY_OCTETS {
        moved.rotate_left(MPLS_ENTRY_OCTETS);
    }
    put(octets, layout.network - 2, &ether_type.to_be_bytes())?;
    put(octets, layout.network, entry.as_bytes())
}

fn pop_mpls<F: Frame>(frame: &mut F, ether_type: u16) -> Result<(), FlowError> {
    let (packet, _) = Packet::parse_headers(frame.bytes(), PortId(0))?;
    let network = packet.layout.network;
    if !is_mpls(packet.fields.ether_type()) {
        return Err(FlowError::ActionMismatch);
    }
    let octets = frame.bytes_mut();
    let moved = octets.get_mut(..network + MPLS_ENTRY_OCTETS).ok_or(FlowError::HeaderLen)?;
    if moved.len() > MPLS_ENTRY_OCTETS {
        moved.rotate_right(MPLS_ENTRY_OCTETS);
    }
    put(octets, network + MPLS_ENTRY_OCTETS - 2, &ether_type.to_be_bytes())?;
    frame.move_head(-(MPLS_ENTRY_OCTETS as isize)).map_err(|_| FlowError::NoRoom)
}

fn put(octets: &mut [u8], at: usize, new: &[u8]) -> Result<(), FlowError> {
    octets.get_mut(at..at + new.len()).ok_or(FlowError::HeaderLen)?.copy_from_slice(new);
    Ok(())
}

/// The checksum of a datagram with its pseudo-header: 0 when it holds its own right checksum.
pub(super) fn sum_of_datagram(endpoints: &Endpoints, datagram: &[u8]) -> u16 {
    let sum = Checksum::new()
        .with_word(u16::from(IP_PROTOCOL_UDP))
        .with_word(datagram.len() as u16)
        .with(datagram);
    match endpoints {
        Endpoints::V4(source, destination) => sum.with(source).with(destination),
        Endpoints::V6(source, destination) => sum.with(source).with(destination),
    }
    .finish()
}

/// The checksum to write into a datagram whose checksum field is 0.
pub(super) fn udp_checksum(endpoints: &Endpoints, datagram: &[u8]) -> u16 {
    match sum_of_datagram(endpoints, datagram) {
        0 => 0xffff,
        sum => sum,
    }
}
