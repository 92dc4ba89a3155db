//! Coded packets to feed a forwarder with: generation after generation, K innovative packets each.

use heddle_core::coded::{CODED_HEADER_OCTETS, CodedHeader, block_len_units};
use heddle_core::gf::Gf256;
use heddle_core::rlnc::cauchy_row;
use heddle_core::wire::{
    ETHERNET_HEADER_OCTETS, EtherType, EthernetHeader, IP_PROTOCOL_UDP, IPV4_HEADER_OCTETS,
    Ipv4Fields, Ipv4Flags, Ipv4Header, multicast_mac,
};
use zerocopy::IntoBytes;

const GEN_ID_AT: usize = ETHERNET_HEADER_OCTETS + IPV4_HEADER_OCTETS + 4;

/// The K frames of one generation, used again for the next with another GEN_ID.
pub struct Frames {
    frames: Vec<Vec<u8>>,
    gen_id: u16,
}

impl Frames {
    /// Frames for generations of `k` blocks of `block_octets`.
    pub fn new(k: usize, block_octets: usize) -> Self {
        let group = [239, 1, 1, 1];
        let ip = Ipv4Fields {
            traffic_class: 0,
            identification: 1,
            flags: Ipv4Flags::DONT_FRAGMENT,
            ttl: 16,
            protocol: 253,
            source: [10, 0, 0, 1],
            destination: group,
        };
        let gen_size = k as u8;
        let units = block_len_units(block_octets).unwrap_or(u8::MAX);
        let coded = CodedHeader::new(IP_PROTOCOL_UDP, 1, 0, 0, gen_size, units);
        let ip_payload_octets = CODED_HEADER_OCTETS + k + coded.block_octets();
        let frames = (0..k)
            .map(|index| {
                let mut vector = vec![0; k];
                // K rows of K are well within the field.
                let _ = cauchy_row::<Gf256>(gen_size, index, &mut vector);
                let block = (0..coded.block_octets()).map(|at| (at * 31 + index * 7) as u8);
                let mut frame = Vec::new();
                let ethernet =
                    EthernetHeader::new(multicast_mac(group), [2, 0, 0, 0, 0, 1], EtherType::IPV4);
                frame.extend_from_slice(ethernet.as_bytes());
                frame.extend_from_slice(Ipv4Header::new(ip, ip_payload_octets).as_bytes());
                frame.extend_from_slice(coded.as_bytes());
                frame.extend_from_slice(&vector);
                frame.extend(block);
                frame
            })
            .collect();
        Self { frames, gen_id: 0 }
    }

    /// The frames of the next generation.
    pub fn next_generation(&mut self) -> impl Iterator<Item = &[u8]> {
        let [high, low] = self.gen_id.to_be_bytes();
        self.gen_id = self.gen_id.wrapping_add(1);
        for frame in &mut self.frames {
            if let Some(field) = frame.get_mut(GEN_ID_AT..GEN_ID_AT + 2) {
                field.copy_from_slice(&[high, low]);
            }
        }
        self.frames.iter().map(Vec::as_slice)
    }
}
