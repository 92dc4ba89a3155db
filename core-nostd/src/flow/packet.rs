//! Finds the fields of a frame, where its headers are, and the name in it.

use super::FlowError;
use super::fields::{Fields, NdnKind, VLAN_PRESENT};
use crate::ndn::{self, Link, NDN_ETHER_TYPE, NDN_PORT, Name, NdnError, Payload, Piece};
use crate::node::PortId;
use crate::wire::{
    ETHERNET_HEADER_OCTETS, EtherType, EthernetHeader, IP_PROTOCOL_UDP, IPV4_HEADER_OCTETS,
    IPV6_HEADER_OCTETS, Ipv4Header, Ipv6Header, MPLS_ENTRY_OCTETS, MplsEntry, UDP_HEADER_OCTETS,
};
use zerocopy::FromBytes;

const VLAN_TAG_OCTETS: usize = 4;
const IP_PROTOCOL_TCP: u8 = 6;
const IP_PROTOCOL_SCTP: u8 = 132;
/// Label stacks and chains of extension headers are followed so far; beyond, what is inside stays unknown.
const MAX_HEADERS: usize = 8;

/// Where the headers of a frame are, in octets from its start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// What follows Ethernet and VLAN tags: label stack, IP or anything else.
    pub network: usize,
    /// IP, behind the label stack; nothing when there is none.
    pub ip: Option<usize>,
    /// What IP carries, when this is its first fragment.
    pub transport: Option<usize>,
    /// The end of the packet, before padding.
    pub end: usize,
}

/// The fields of a frame.
#[derive(Copy, Clone, Debug)]
pub struct Packet<'f> {
    /// What rules match.
    pub fields: Fields,
    /// Where the headers are.
    pub layout: Layout,
    /// The name, of an Interest, a Data or a Nack, or of the first fragment of one.
    pub name: Option<Name<'f>>,
    /// When it is one of several fragments by NDNLPv2: which, and whether it is the first.
    pub piece: Option<(Piece, bool)>,
    /// Whether it is an Interest without a Nonce, which whoever forwards it adds.
    pub lacks_nonce: bool,
    /// Why what should be a named-data packet is none. Such a packet has no name.
    pub ndn_error: Option<NdnError>,
}

/// What of IP the layers above need.
struct Ip {
    payload_at: usize,
    end: usize,
    is_later_fragment: bool,
    is_fragment: bool,
}

impl<'f> Packet<'f> {
    /// Takes apart a frame that came in on `port`.
    ///
    /// # Errors
    /// [`FlowError::FrameTooShort`] or [`FlowError::HeaderLen`].
    pub fn parse(frame: &'f [u8], port: PortId) -> Result<Self, FlowError> {
        let (mut packet, ndn) = Self::parse_headers(frame, port)?;
        if let Some((octets, link)) = ndn {
            packet.read_ndn(octets, link);
        }
        Ok(packet)
    }

    /// The same without a look into named-data packets, and where there should be one.
    ///
    /// # Errors
    /// [`FlowError::FrameTooShort`] or [`FlowError::HeaderLen`].
    #[expect(clippy::type_complexity, reason = "a pair of a packet and a place")]
    pub(super) fn parse_headers(
        frame: &'f [u8],
        port: PortId,
    ) -> Result<(Self, Option<(&'f [u8], Link)>), FlowError> {
        let (ethernet, _) =
            EthernetHeader::ref_from_prefix(frame).map_err(|_| FlowError::FrameTooShort)?;
        let mut packet = Self {
            fields: Fields {
                in_port: u32::from(port.0) + 1,
                ethernet_destination: ethernet.destination,
                ethernet_source: ethernet.source,
                ether_type: ethernet.ether_type().0,
                ..Fields::default()
            },
            layout: Layout {
                network: ETHERNET_HEADER_OCTETS,
                end: frame.len(),
                ..Layout::default()
            },
            name: None,
            piece: None,
            lacks_nonce: false,
            ndn_error: None,
        };
        packet.read_vlan(frame)?;
        let mut at = packet.layout.network;
        let mut carried = packet.fields.ether_type();
        if matches!(carried, EtherType::MPLS | EtherType::MPLS_UPSTREAM) {
            (at, carried) = packet.read_labels(frame)?;
        }
        let ip = match carried {
            EtherType::IPV4 => packet.read_ipv4(frame, at)?,
            EtherType::IPV6 => packet.read_ipv6(frame, at)?,
            NDN_ETHER_TYPE => {
                let octets = frame.get(at..).unwrap_or_default();
                return Ok((packet, Some((octets, Link::Ethernet))));
            }
            _ => return Ok((packet, None)),
        };
        packet.layout.ip = Some(at);
        packet.layout.end = ip.end;
        let datagram = packet.read_transport(frame, &ip)?;
        Ok((packet, datagram.map(|octets| (octets, Link::Datagram))))
    }

    fn read_vlan(&mut self, frame: &[u8]) -> Result<(), FlowError> {
        while matches!(self.fields.ether_type, 0x8100 | 0x88a8) {
            let tag = frame
                .get(self.layout.network..)
                .and_then(<[u8]>::first_chunk::<VLAN_TAG_OCTETS>)
                .ok_or(FlowError::FrameTooShort)?;
            let [control_high, control_low, type_high, type_low] = *tag;
            let control = u16::from_be_bytes([control_high, control_low]);
            // OpenFlow sees the outermost tag.
            if self.fields.vlan_id == 0 {
                self.fields.vlan_id = VLAN_PRESENT | (control & 0x0fff);
                self.fields.vlan_priority = (control >> 13) as u8;
            }
            self.fields.ether_type = u16::from_be_bytes([type_high, type_low]);
            self.layout.network += VLAN_TAG_OCTETS;
        }
        Ok(())
    }

    /// The label stack: where it ends and what is behind it, told by the first nibble as label switches do (RFC 4928).
    fn read_labels(&mut self, frame: &[u8]) -> Result<(usize, EtherType), FlowError> {
        let mut at = self.layout.network;
        for depth in 0..MAX_HEADERS {
            let octets = frame.get(at..).unwrap_or_default();
            let (entry, _) =
                MplsEntry::ref_from_prefix(octets).map_err(|_| FlowError::FrameTooShort)?;
            if depth == 0 {
                self.fields.mpls_label = entry.label();
                self.fields.mpls_class = entry.traffic_class();
                self.fields.mpls_bottom = entry.is_bottom().into();
            }
            at += MPLS_ENTRY_OCTETS;
            if entry.is_bottom() {
                let carried = match frame.get(at).map(|octet| octet >> 4) {
                    Some(4) => EtherType::IPV4,
                    Some(6) => EtherType::IPV6,
                    _ => EtherType(0),
                };
                return Ok((at, carried));
            }
        }
        Ok((at, EtherType(0)))
    }

    fn read_ipv4(&mut self, frame: &[u8], at: usize) -> Result<Ip, FlowError> {
        let octets = frame.get(at..).unwrap_or_default();
        let (header, _) =
            Ipv4Header::ref_from_prefix(octets).map_err(|_| FlowError::FrameTooShort)?;
        let (header_len, total_len) = (header.header_len(), header.total_len());
        let is_v4 = octets.first().is_some_and(|octet| octet >> 4 == 4);
        let is_long_enough = header_len >= IPV4_HEADER_OCTETS && header_len <= total_len;
        if !is_v4 || !is_long_enough || total_len > octets.len() {
            return Err(FlowError::HeaderLen);
        }
        self.fields.ip_source = Fields::ipv4(header.source);
        self.fields.ip_destination = Fields::ipv4(header.destination);
        self.fields.ip_protocol = header.protocol;
        self.fields.dscp = header.traffic_class >> 2;
        self.fields.ecn = header.traffic_class & 3;
        Ok(Ip {
            payload_at: at + header_len,
            end: at + total_len,
            is_later_fragment: header.fragment_offset() != 0,
            is_fragment: header.is_fragment(),
        })
    }

    fn read_ipv6(&mut self, frame: &[u8], at: usize) -> Result<Ip, FlowError> {
        let octets = frame.get(at..).unwrap_or_default();
        let (header, rest) =
            Ipv6Header::ref_from_prefix(octets).map_err(|_| FlowError::FrameTooShort)?;
        if header.version() != 6 || header.payload_len() > rest.len() {
            return Err(FlowError::HeaderLen);
        }
        self.fields.ip_source = header.source;
        self.fields.ip_destination = header.destination;
        self.fields.dscp = header.traffic_class() >> 2;
        self.fields.ecn = header.traffic_class() & 3;
        self.fields.flow_label = header.flow_label();
        let mut ip = Ip {
            payload_at: at + IPV6_HEADER_OCTETS,
            end: at + IPV6_HEADER_OCTETS + header.payload_len(),
            is_later_fragment: false,
            is_fragment: false,
        };
        let mut next = header.next_header;
        for _ in 0..MAX_HEADERS {
            // Hop-by-hop, routing, destination options; fragment (RFC 8200, 4).
            let is_fragment = match next {
                0 | 43 | 60 => false,
                44 => true,
                _ => break,
            };
            let Some([after, len, offset_high, offset_low, ..]) =
                frame.get(ip.payload_at..ip.end).and_then(<[u8]>::first_chunk::<8>)
            else {
                return Err(FlowError::HeaderLen);
            };
            next = *after;
            if is_fragment {
                ip.is_fragment = true;
                ip.is_later_fragment = u16::from_be_bytes([*offset_high, *offset_low]) >> 3 != 0;
                ip.payload_at += 8;
            } else {
                ip.payload_at += 8 + usize::from(*len) * 8;
            }
            if ip.is_later_fragment {
                break;
            }
        }
        if ip.payload_at > ip.end {
            return Err(FlowError::HeaderLen);
        }
        self.fields.ip_protocol = next;
        Ok(ip)
    }

    /// Reads ports; what is in a datagram that should be a named-data packet.
    fn read_transport(&mut self, frame: &'f [u8], ip: &Ip) -> Result<Option<&'f [u8]>, FlowError> {
        if ip.is_later_fragment {
            return Ok(None);
        }
        self.layout.transport = Some(ip.payload_at);
        let octets = frame.get(ip.payload_at..ip.end).unwrap_or_default();
        if !matches!(self.fields.ip_protocol, IP_PROTOCOL_UDP | IP_PROTOCOL_TCP | IP_PROTOCOL_SCTP)
        {
            return Ok(None);
        }
        let Some([a, b, c, d]) = octets.first_chunk() else { return Err(FlowError::HeaderLen) };
        self.fields.source_port = u16::from_be_bytes([*a, *b]);
        self.fields.destination_port = u16::from_be_bytes([*c, *d]);
        let ports = [self.fields.source_port, self.fields.destination_port];
        if self.fields.ip_protocol != IP_PROTOCOL_UDP
            || !ports.contains(&NDN_PORT)
            || ip.is_fragment
        {
            return Ok(None);
        }
        let Some([_, _, _, _, high, low]) = octets.first_chunk() else {
            return Err(FlowError::HeaderLen);
        };
        let datagram_octets = usize::from(u16::from_be_bytes([*high, *low]));
        let payload = octets.get(UDP_HEADER_OCTETS..datagram_octets).ok_or(FlowError::HeaderLen)?;
        Ok(Some(payload))
    }

    fn read_ndn(&mut self, octets: &'f [u8], link: Link) {
        let read = ndn::Packet::parse(octets, link).and_then(|packet| {
            let kind = match packet.payload {
                Payload::Interest(interest) if interest.hop_limit == Some(0) => {
                    return Err(NdnError::HopLimitZero);
                }
                Payload::Interest(interest) => {
                    self.lacks_nonce = interest.nonce.is_none();
                    NdnKind::Interest
                }
                Payload::Data(_) => NdnKind::Data,
                Payload::Nack(..) => NdnKind::Nack,
                Payload::Idle => NdnKind::Idle,
                Payload::Fragment(fragment) => {
                    let piece = Piece::new(self.fields.in_port, &packet.link)?;
                    let is_first = packet.link.index() == 0;
                    self.piece = Some((piece, is_first));
                    if !is_first {
                        self.fields.ndn_kind = NdnKind::LaterFragment as u8;
                        return Ok(());
                    }
                    let (is_interest, name) = ndn::first_fragment_name(fragment)?;
                    self.name = Some(name);
                    match (is_interest, packet.link.nack) {
                        (true, None) => NdnKind::Interest,
                        (true, Some(_)) => NdnKind::Nack,
                        (false, None) => NdnKind::Data,
                        (false, Some(_)) => return Err(NdnError::NackWithData),
                    }
                }
            };
            self.fields.ndn_kind = kind as u8;
            self.name = self.name.or(packet.name());
            if link == Link::Ethernet {
                // What is behind the packet is padding.
                self.layout.end -= octets.len() - packet.octets.len();
            }
            Ok(())
        });
        if let Err(error) = read {
            (self.ndn_error, self.name, self.piece) = (Some(error), None, None);
        }
    }
}
