//! Addresses as C has them.

use libc::{c_int, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use socket2::{SockAddr, SockAddrStorage};
use std::io;
use std::net::SocketAddr;

fn failed(errno: c_int) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// Reads an address.
///
/// # Errors
/// EFAULT for null, EINVAL when it is too short, EAFNOSUPPORT when it is none of IP.
///
/// # Safety
/// `length` octets can be read at `address`, unless it is null.
pub unsafe fn read(address: *const sockaddr, length: socklen_t) -> io::Result<SocketAddr> {
    if address.is_null() {
        return Err(failed(libc::EFAULT));
    }
    if (length as usize) < size_of::<sa_family_t>() {
        return Err(failed(libc::EINVAL));
    }
    // SAFETY: the family comes first in each kind of address, and that many octets are there.
    let family = c_int::from(unsafe { (&raw const (*address).sa_family).read_unaligned() });
    let needed = match family {
        libc::AF_INET => size_of::<sockaddr_in>(),
        libc::AF_INET6 => size_of::<sockaddr_in6>(),
        _ => return Err(failed(libc::EAFNOSUPPORT)),
    };
    if (length as usize) < needed {
        return Err(failed(libc::EINVAL));
    }
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: `needed` octets can be read, and a storage has room for any address.
    let address = unsafe {
        let to: *mut SockAddrStorage = &raw mut storage;
        std::ptr::copy_nonoverlapping(address.cast::<u8>(), to.cast::<u8>(), needed);
        SockAddr::new(storage, needed as socklen_t)
    };
    address.as_socket().ok_or_else(|| failed(libc::EAFNOSUPPORT))
}

/// Writes an address as far as there is room, and its whole length.
///
/// # Errors
/// EFAULT when one of the pointers alone is null.
///
/// # Safety
/// Unless they are null, `length` can be read and written, and as many octets as it says can be written at `to`.
pub unsafe fn write(
    address: SocketAddr,
    to: *mut sockaddr,
    length: *mut socklen_t,
) -> io::Result<()> {
    if to.is_null() || length.is_null() {
        return Err(failed(libc::EFAULT));
    }
    let address = SockAddr::from(address);
    // SAFETY: the caller's promise; what is copied is no longer than either place.
    unsafe {
        let room = length.read_unaligned().min(address.len());
        let from = address.as_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), room as usize);
        length.write_unaligned(address.len());
    }
    Ok(())
}
