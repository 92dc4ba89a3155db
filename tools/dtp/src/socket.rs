//! A UDP socket of the kernel's, with segmentation offload both ways and the marks of congestion.

use heddle_core::dtp::modern::PathAddress;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Octets that the kernel may hold for us in each direction: some milliseconds at 10 Gbit/s.
const KERNEL_BUFFER: usize = 4 << 20;

/// Datagrams that one call takes.
pub(crate) const BATCH: usize = 16;

pub(crate) struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    is_v6: bool,
}

/// The address as the protocol writes it.
pub(crate) fn path_of(address: SocketAddr) -> PathAddress {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    PathAddress { local: 0, port: address.port(), ip: ip.octets() }
}

/// The address as people write it.
pub(crate) fn address_of(path: PathAddress) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(path.ip).to_canonical(), path.port)
}

impl Udp {
    /// A socket bound to that address. One of the unspecified IPv6 address speaks IPv4 too.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        // As much as the system lets us have.
        let _ = socket.set_recv_buffer_size(KERNEL_BUFFER);
        let _ = socket.set_send_buffer_size(KERNEL_BUFFER);
        let socket: UdpSocket = socket.into();
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self { socket, state, is_v6: address.is_ipv6() })
    }

    /// A socket for a client: both families if the system has them.
    pub fn any() -> io::Result<Self> {
        Self::bind((Ipv6Addr::UNSPECIFIED, 0).into())
            .or_else(|_| Self::bind((Ipv4Addr::UNSPECIFIED, 0).into()))
    }

    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Datagrams of the same size that one call sends at most.
    pub fn most_segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Takes what has come, and gives each datagram with its sender and whether it was marked.
    pub fn receive(
        &self,
        buffers: &mut [Vec<u8>; BATCH],
        mut each: impl FnMut(PathAddress, &mut [u8], bool),
    ) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); BATCH];
        let count = {
            let mut slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
            self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas)?
        };
        for (meta, buffer) in metas.iter().zip(buffers).take(count) {
            let path = path_of(meta.addr);
            let marked = meta.ecn == Some(EcnCodepoint::Ce);
            let octets = buffer.get_mut(..meta.len).unwrap_or(&mut []);
            for datagram in octets.chunks_mut(meta.stride.max(1)) {
                each(path, datagram, marked);
            }
        }
        Ok(())
    }
}

impl crate::outlet::Socket for Udp {
    fn open(bind: Option<SocketAddr>) -> io::Result<Self> {
        bind.map_or_else(Self::any, Self::bind)
    }

    fn send(
        &self,
        path: PathAddress,
        octets: &[u8],
        segment: usize,
        marks: bool,
    ) -> io::Result<()> {
        let address = address_of(path);
        let destination = match address.ip() {
            IpAddr::V4(ip) if self.is_v6 => SocketAddr::new(ip.to_ipv6_mapped().into(), path.port),
            _ => address,
        };
        let transmit = Transmit {
            destination,
            ecn: marks.then_some(EcnCodepoint::Ect0),
            contents: octets,
            segment_size: (octets.len() > segment).then_some(segment),
            src_ip: None,
        };
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    fn wait_for_room(&self) {
        let mut fds = [PollFd::new(self, PollFlags::OUT)];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outlet::{Outcome, Outlet, SendCounters};
    use heddle_core::node::Instant;

    #[test]
    fn a_server_whose_socket_is_shut_goes_on_at_its_port() {
        let first = Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_address().unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        // Its writes fail with EPIPE from now on, as those of suspended phones.
        let _ = socket2::SockRef::from(&first.socket).connect(&peer.local_addr().unwrap().into());
        socket2::SockRef::from(&first.socket).shutdown(std::net::Shutdown::Both).unwrap();
        let mut outlet = Outlet::new(first, Some(address));
        let counters = SendCounters::default();
        let path = path_of(peer.local_addr().unwrap());
        let outcome = outlet.send(Instant::from_nanos(1), path, b"hello", 5, &counters);
        assert_eq!(outcome, Outcome::Reopened);
        assert_eq!(outlet.socket.local_address().unwrap(), address);
        let mut buffer = [0; 9];
        assert_eq!(peer.recv_from(&mut buffer).unwrap(), (5, address));
    }
}
