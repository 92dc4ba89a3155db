//! What the kernel says about links, addresses and routes.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Groups of rtnetlink (`linux/rtnetlink.h`): links, addresses and routes of IPv4 and IPv6.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// A socket that becomes readable when the network changes.
pub(crate) struct Changes(OwnedFd);

impl Changes {
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0 is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self(socket))
    }

    /// Takes all that is there; gives whether there was anything.
    pub fn take(&self) -> bool {
        let mut any = false;
        let mut buffer = [0u8; 8192];
        loop {
            match recv(&self.0, &mut buffer, RecvFlags::empty()) {
                Ok((_, octets)) if octets > 0 => any = true,
                // The kernel had more to say than the socket could hold: something has changed for sure.
                Err(rustix::io::Errno::NOBUFS) => any = true,
                Err(rustix::io::Errno::INTR) => {}
                _ => return any,
            }
        }
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
