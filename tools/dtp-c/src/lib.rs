//! The library that `heddle dtp run` loads before a program's own.
//!
//! `connect` to an address of the table in `HEDDLE_DTP_VIA` (`ADDRESS:PORT>LOCAL_PORT`, with commas between) goes to that port of the loopback
//! instead; `getpeername` gives the address that was asked for. All other calls and addresses are as before. It keeps no state but the table, so copies of
//! descriptors, forks and executions need no care.

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use std::ffi::CStr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

type Connect = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
type GetPeerName = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;

/// The addresses and the local ports that stand for them.
fn table() -> &'static [(SocketAddr, u16)] {
    static TABLE: OnceLock<Vec<(SocketAddr, u16)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let text = std::env::var("HEDDLE_DTP_VIA").unwrap_or_default();
        let entry = |entry: &str| {
            let (address, port) = entry.split_once('>')?;
            Some((address.parse().ok()?, port.parse().ok()?))
        };
        text.split(',').filter_map(entry).collect()
    })
}

/// The system's function of a name.
fn next(name: &CStr) -> Option<*mut libc::c_void> {
    // SAFETY: `name` ends with a zero octet, and RTLD_NEXT is a handle that dlsym takes.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the place of this thread's errno is always there to be written.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Reads an address; nothing for other families and short ones. IPv4 in IPv6 counts as IPv4.
///
/// # Safety
/// `length` octets can be read at `address`, unless it is null.
unsafe fn read(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    if address.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family comes first in each kind of address, and that many octets are there.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if length as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: an address of this family, and as many octets as it has.
            let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if length as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: an address of this family, and as many octets as it has.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr).to_canonical();
            Some((ip, u16::from_be(v6.sin6_port)).into())
        }
        _ => None,
    }
}

fn of_v4(ip: Ipv4Addr, port: u16) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    }
}

fn of_v6(ip: Ipv6Addr, port: u16) -> sockaddr_in6 {
    sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: port.to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
        sin6_scope_id: 0,
    }
}

/// A number that is an option of a socket.
fn option(fd: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: the value and its length are there to be written, and the length is right.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length)
    };
    (result == 0).then_some(value)
}

/// `connect(2)`.
///
/// # Safety
/// As the system's: `length` octets can be read at `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let Some(found) = next(c"connect") else { return fail(libc::ENOSYS) };
    // SAFETY: the system's function of this name has this type.
    let system: Connect = unsafe { std::mem::transmute(found) };
    // SAFETY: the caller's promise.
    let wanted = unsafe { read(address, length) };
    let port = wanted.and_then(|wanted| table().iter().find(|entry| entry.0 == wanted));
    let Some(&(_, port)) = port.filter(|_| option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM))
    else {
        // SAFETY: the caller's promise.
        return unsafe { system(fd, address, length) };
    };
    if option(fd, libc::SO_DOMAIN) == Some(libc::AF_INET6) {
        let no: c_int = 0;
        // A socket that may not is refused by the system right below.
        // SAFETY: the value is there to be read, and the length is right.
        unsafe {
            let length = size_of::<c_int>() as socklen_t;
            let value = (&raw const no).cast();
            libc::setsockopt(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, value, length);
        }
        let local = of_v6(Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port);
        // SAFETY: a whole address with its length.
        return unsafe {
            system(fd, (&raw const local).cast(), size_of::<sockaddr_in6>() as socklen_t)
        };
    }
    let local = of_v4(Ipv4Addr::LOCALHOST, port);
    // SAFETY: a whole address with its length.
    unsafe { system(fd, (&raw const local).cast(), size_of::<sockaddr_in>() as socklen_t) }
}

/// `getpeername(2)`.
///
/// # Safety
/// As the system's: `*length` octets can be written at `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let Some(found) = next(c"getpeername") else { return fail(libc::ENOSYS) };
    // SAFETY: the system's function of this name has this type.
    let system: GetPeerName = unsafe { std::mem::transmute(found) };
    // SAFETY: the system's function reads it too; null is told apart.
    let room = if length.is_null() { 0 } else { unsafe { length.read_unaligned() } };
    // SAFETY: the caller's promise.
    let result = unsafe { system(fd, address, length) };
    if result != 0 || length.is_null() {
        return result;
    }
    // SAFETY: the system's function has just written it, and the address as far as there was room.
    let peer = unsafe { read(address, room.min(length.read_unaligned())) };
    let asked = peer
        .filter(|peer| peer.ip() == Ipv4Addr::LOCALHOST)
        .and_then(|peer| table().iter().find(|entry| entry.1 == peer.port()).map(|entry| entry.0));
    let is_v6 = option(fd, libc::SO_DOMAIN) == Some(libc::AF_INET6);
    match asked {
        Some(SocketAddr::V4(asked)) if !is_v6 => {
            // SAFETY: an address of this family has been read here, so there is room for one.
            unsafe {
                address.cast::<sockaddr_in>().write_unaligned(of_v4(*asked.ip(), asked.port()))
            }
        }
        Some(asked) if is_v6 => {
            let ip = match asked.ip() {
                std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                std::net::IpAddr::V6(ip) => ip,
            };
            // SAFETY: an address of this family has been read here, so there is room for one.
            unsafe { address.cast::<sockaddr_in6>().write_unaligned(of_v6(ip, asked.port())) }
        }
        _ => {}
    }
    result
}
