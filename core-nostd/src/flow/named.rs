//! Where a named-data packet lies in its frame, and what of the headers around it depends on its length.

use super::FlowError;
use super::apply::{sum_of_datagram, udp_checksum};
use super::packet::Packet;
use super::tunnel::Endpoints;
use crate::ndn::Link;
use crate::node::PortId;
use crate::wire::{Checksum, UDP_HEADER_OCTETS};

// Octets from the start of their headers.
const IPV4_TOTAL_LEN: usize = 2;
const IPV4_CHECKSUM: usize = 10;
const IPV6_PAYLOAD_LEN: usize = 4;
const IPV6_HEADER: usize = 40;
const UDP_LEN: usize = 4;
const UDP_CHECKSUM: usize = 6;

/// The headers around a named-data packet.
#[derive(Copy, Clone, Debug)]
pub(super) struct Envelope {
    /// Where the packet begins, and its octets with what the link may have padded.
    pub(super) at: usize,
    pub(super) octets: usize,
    pub(super) link: Link,
    /// Where IP and UDP are, with the addresses.
    udp: Option<(usize, usize, Endpoints)>,
    has_checksum: bool,
}

impl Envelope {
    /// The headers of a frame that should carry a named-data packet.
    pub(super) fn of(frame: &[u8]) -> Result<Option<Self>, FlowError> {
        let (packet, ndn) = Packet::parse_headers(frame, PortId(0))?;
        let Some((octets, link)) = ndn else { return Ok(None) };
        let layout = packet.layout;
        let (Some(ip), Some(udp)) = (layout.ip, layout.transport) else {
            let at = layout.network;
            return Ok(Some(Self {
                at,
                octets: octets.len(),
                link,
                udp: None,
                has_checksum: false,
            }));
        };
        let fields = packet.fields;
        let is_v4 = frame.get(ip).is_some_and(|octet| octet >> 4 == 4);
        let endpoints = if is_v4 {
            let v4 = |address: &[u8; 16]| address.first_chunk::<4>().copied().unwrap_or_default();
            Endpoints::V4(v4(&fields.ip_source), v4(&fields.ip_destination))
        } else {
            Endpoints::V6(fields.ip_source, fields.ip_destination)
        };
        let sum = frame.get(udp + UDP_CHECKSUM..).and_then(<[u8]>::first_chunk::<2>);
        let has_checksum = sum.is_some_and(|sum| *sum != [0, 0]);
        let at = udp + UDP_HEADER_OCTETS;
        let udp = Some((ip, udp, endpoints));
        Ok(Some(Self { at, octets: octets.len(), link, udp, has_checksum }))
    }

    /// Whether the checksum that covers the packet is right, or there is none.
    pub(super) fn is_right(&self, frame: &[u8]) -> bool {
        let Some((_, at, endpoints)) = &self.udp else { return true };
        let datagram = frame.get(*at..self.at + self.octets).unwrap_or_default();
        !self.has_checksum || sum_of_datagram(endpoints, datagram) == 0
    }

    /// Sets lengths and checksums for a frame in these headers that ends with its named-data packet. A datagram that came without a
    /// checksum stays without. `part` counts IPv4's identification on, so that datagrams made of one differ in it (RFC 6864).
    pub(super) fn close(&self, frame: &mut [u8], part: u16) -> Result<(), FlowError> {
        let Some((ip, udp, endpoints)) = &self.udp else { return Ok(()) };
        let length = |from: usize| {
            u16::try_from(frame.len().saturating_sub(from)).map_err(|_| FlowError::NoRoom)
        };
        let (ip_octets, payload_octets) = (length(*ip)?, length(ip + IPV6_HEADER));
        let udp_octets = length(*udp)?;
        match endpoints {
            Endpoints::V4(..) => {
                // Length and identification stand side by side; RFC 1624 for their checksum.
                let at = ip + IPV4_TOTAL_LEN;
                let (old_octets, old_number) = (get(frame, at)?, get(frame, at + 2)?);
                let number = u16::from_be_bytes(old_number).wrapping_add(part);
                let sum = u16::from_be_bytes(get(frame, ip + IPV4_CHECKSUM)?);
                let without = Checksum::new().with(&old_octets).with(&old_number).finish();
                let sum = Checksum::new().with_word(!sum).with_word(without);
                let sum = sum.with_word(ip_octets).with_word(number);
                put(frame, at, ip_octets)?;
                put(frame, at + 2, number)?;
                put(frame, ip + IPV4_CHECKSUM, sum.finish())?;
            }
            Endpoints::V6(..) => put(frame, ip + IPV6_PAYLOAD_LEN, payload_octets?)?,
        }
        put(frame, udp + UDP_LEN, udp_octets)?;
        if self.has_checksum {
            put(frame, udp + UDP_CHECKSUM, 0)?;
            let sum = udp_checksum(endpoints, frame.get(*udp..).unwrap_or_default());
            put(frame, udp + UDP_CHECKSUM, sum)?;
        }
        Ok(())
    }
}

fn get(frame: &[u8], at: usize) -> Result<[u8; 2], FlowError> {
    frame.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(FlowError::HeaderLen)
}

fn put(frame: &mut [u8], at: usize, value: u16) -> Result<(), FlowError> {
    let place = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    *place.ok_or(FlowError::HeaderLen)? = value.to_be_bytes();
    Ok(())
}
