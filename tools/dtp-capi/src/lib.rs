//! DTP for C programs: the calls of sockets, with `dtp_` before their names.
//!
//! A descriptor is one end of a pair of local sockets, so it works with everything that takes descriptors; threads carry octets between the other end
//! and the flow. All functions fail with -1 and `errno`, check their pointers, and may be called by any thread. `include/dtp.h` and `dtp(3)` say what each does.
#![allow(unsafe_code, reason = "the callers are C programs")]

mod address;
mod flow;
mod options;
mod table;

use flow::{errno_of, failed};
use libc::{c_int, c_long, c_ulong, c_void, off_t, size_t, sockaddr, socklen_t, ssize_t};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use table::{Phase, find};

pub use options::{dtp_getsockopt, dtp_setsockopt};

/// The outcome of a call as C has it: -1 and `errno` for an error, and for a panic, which C must not see.
pub(crate) fn outcome<T: From<i8>>(call: impl FnOnce() -> io::Result<T>) -> T {
    let errno = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => errno_of(&error),
        Err(_) => libc::EIO,
    };
    // SAFETY: the place of this thread's errno is always there to be written.
    unsafe { *libc::__errno_location() = errno };
    T::from(-1)
}

/// What a system call gave, as a result.
pub(crate) fn checked<T: From<i8> + PartialOrd>(result: T) -> io::Result<T> {
    if result < T::from(0) { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new descriptor: `AF_INET` or `AF_INET6`, `SOCK_STREAM` with its flags, protocol 0.
#[unsafe(no_mangle)]
pub extern "C" fn dtp_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    outcome(|| {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        match (domain, kind & !flags, protocol) {
            (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM, 0) => {
                let options = table::Options::default();
                flow::descriptor(domain == libc::AF_INET6, kind & flags, options)
            }
            (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM, _) => {
                Err(failed(libc::EPROTONOSUPPORT))
            }
            (libc::AF_INET | libc::AF_INET6, ..) => Err(failed(libc::ESOCKTNOSUPPORT)),
            _ => Err(failed(libc::EAFNOSUPPORT)),
        }
    })
}

/// Gives a descriptor the address that it will listen at.
///
/// # Safety
/// `length` octets can be read at `address`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    outcome(|| {
        let entry = find(fd)?;
        // SAFETY: the caller's promise.
        let address = unsafe { address::read(address, length) }?;
        let mut inner = entry.lock();
        if !matches!(inner.phase, Phase::Fresh) || inner.bound.is_some() {
            return Err(failed(libc::EINVAL));
        }
        if address.is_ipv6() != inner.is_v6 {
            return Err(failed(libc::EAFNOSUPPORT));
        }
        inner.bound = Some(address);
        Ok(0)
    })
}

/// Opens a flow. A descriptor that does not block gets EINPROGRESS, becomes writable, and `SO_ERROR` says how it went.
///
/// # Safety
/// `length` octets can be read at `address`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    outcome(|| {
        let entry = find(fd)?;
        // SAFETY: the caller's promise.
        let address = unsafe { address::read(address, length) }?;
        if address.is_ipv6() != entry.lock().is_v6 {
            return Err(failed(libc::EAFNOSUPPORT));
        }
        flow::connect(&entry, fd, address)?;
        if is_nonblocking(fd)? {
            return Err(failed(libc::EINPROGRESS));
        }
        let mut inner = entry.lock();
        loop {
            match inner.phase {
                Phase::Connecting => inner = entry.wait(inner, Duration::from_secs(1)),
                Phase::Ended => {
                    let error = std::mem::take(&mut inner.error);
                    return Err(failed(if error == 0 { libc::ECONNABORTED } else { error }));
                }
                _ => return Ok(0),
            }
        }
    })
}

fn is_nonblocking(fd: c_int) -> io::Result<bool> {
    // SAFETY: a system call on numbers.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    Ok(flags & libc::O_NONBLOCK != 0)
}

/// Takes flows at the address of [`dtp_bind`]; the descriptor becomes readable when one waits.
#[unsafe(no_mangle)]
pub extern "C" fn dtp_listen(fd: c_int, backlog: c_int) -> c_int {
    outcome(|| {
        flow::listen(&find(fd)?, usize::try_from(backlog).unwrap_or(0).clamp(1, 4096))?;
        Ok(0)
    })
}

/// A descriptor for the flow that has waited longest, and its peer's address if `address` is not null.
///
/// # Safety
/// Unless they are null, `length` can be read and written, and as many octets as it says can be written at `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    outcome(|| {
        if !address.is_null() && length.is_null() {
            return Err(failed(libc::EFAULT));
        }
        let (accepted, peer) = flow::accept(fd, 0)?;
        if !address.is_null() {
            // SAFETY: the caller's promise.
            unsafe { address::write(peer, address, length) }?;
        }
        Ok(accepted)
    })
}

/// As read(2).
///
/// # Safety
/// `octets` octets can be written at `to`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_read(fd: c_int, to: *mut c_void, octets: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { dtp_recv(fd, to, octets, 0) }
}

/// As recv(2).
///
/// # Safety
/// `octets` octets can be written at `to`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_recv(
    fd: c_int,
    to: *mut c_void,
    octets: size_t,
    flags: c_int,
) -> ssize_t {
    outcome(|| {
        let entry = connected(fd)?;
        if to.is_null() && octets > 0 {
            return Err(failed(libc::EFAULT));
        }
        if flags & libc::MSG_OOB != 0 {
            return Err(failed(libc::EOPNOTSUPP));
        }
        // SAFETY: the caller's promise.
        let count = checked(unsafe { libc::recv(fd, to, octets, flags) })?;
        if count == 0 && octets > 0 {
            // The end of the stream, unless the flow broke.
            let error = std::mem::take(&mut entry.lock().error);
            if error != 0 {
                return Err(failed(error));
            }
        }
        Ok(count)
    })
}

/// What a descriptor stands for that has a flow, or had one.
fn connected(fd: c_int) -> io::Result<std::sync::Arc<table::Entry>> {
    let entry = find(fd)?;
    let inner = entry.lock();
    match inner.phase {
        Phase::Connected(..) | Phase::Ended => {}
        Phase::Connecting if !is_nonblocking(fd)? => {}
        Phase::Connecting => return Err(failed(libc::EAGAIN)),
        Phase::Fresh | Phase::Listening(_) => return Err(failed(libc::ENOTCONN)),
    }
    drop(inner);
    Ok(entry)
}

/// As write(2), without SIGPIPE.
///
/// # Safety
/// `octets` octets can be read at `from`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_write(fd: c_int, from: *const c_void, octets: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { dtp_send(fd, from, octets, 0) }
}

/// As send(2), without SIGPIPE.
///
/// # Safety
/// `octets` octets can be read at `from`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_send(
    fd: c_int,
    from: *const c_void,
    octets: size_t,
    flags: c_int,
) -> ssize_t {
    outcome(|| {
        let entry = connected(fd)?;
        if from.is_null() && octets > 0 {
            return Err(failed(libc::EFAULT));
        }
        if flags & libc::MSG_OOB != 0 {
            return Err(failed(libc::EOPNOTSUPP));
        }
        // SAFETY: the caller's promise.
        let sent = unsafe { libc::send(fd, from, octets, flags | libc::MSG_NOSIGNAL) };
        checked(sent).map_err(|error| why(&entry, error))
    })
}

/// What a broken pipe means: the flow's own error, the first time.
fn why(entry: &table::Entry, error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EPIPE) {
        return error;
    }
    match std::mem::take(&mut entry.lock().error) {
        0 => error,
        errno => failed(errno),
    }
}

/// As sendfile(2), to a DTP descriptor.
///
/// # Safety
/// `offset` can be read and written, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    octets: size_t,
) -> ssize_t {
    outcome(|| {
        let entry = connected(to)?;
        // SAFETY: the caller's promise.
        let sent = unsafe { libc::sendfile(to, from, offset, octets) };
        checked(sent).map_err(|error| why(&entry, error))
    })
}

/// Closes a descriptor. The last one of a flow that blocks waits until the peer has what was written, as long as `DTP_LINGER` says.
#[unsafe(no_mangle)]
pub extern "C" fn dtp_close(fd: c_int) -> c_int {
    outcome(|| {
        let entry = find(fd)?;
        let waits = !is_nonblocking(fd)?;
        // SAFETY: a system call on a number.
        checked(unsafe { libc::close(fd) })?;
        let mut inner = entry.lock();
        if matches!(inner.phase, Phase::Fresh) {
            drop(inner);
            if entry.is_abandoned() {
                entry.forget();
            }
            return Ok(0);
        }
        let had_flow = matches!(inner.phase, Phase::Connected(..) | Phase::Listening(_));
        let had_ended = matches!(inner.phase, Phase::Ended);
        let linger = Duration::from_millis(inner.options.linger_ms.into());
        let end = Instant::now() + if waits { linger } else { Duration::ZERO };
        if had_flow && entry.is_abandoned() {
            while !inner.is_gone {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                inner = entry.wait(inner, left);
            }
        }
        let is_gone = inner.is_gone;
        drop(inner);
        if is_gone || had_ended {
            entry.forget();
        }
        Ok(0)
    })
}

/// As shutdown(2).
#[unsafe(no_mangle)]
pub extern "C" fn dtp_shutdown(fd: c_int, how: c_int) -> c_int {
    outcome(|| {
        let entry = find(fd)?;
        if !matches!(entry.lock().phase, Phase::Connected(..)) {
            return Err(failed(libc::ENOTCONN));
        }
        // SAFETY: a system call on numbers.
        checked(unsafe { libc::shutdown(fd, how) })
    })
}

/// As select(2), with descriptors of any kind.
///
/// # Safety
/// As the system's: each pointer is null or good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_select(
    count: c_int,
    read: *mut libc::fd_set,
    write: *mut libc::fd_set,
    except: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    outcome(|| checked(unsafe { libc::select(count, read, write, except, timeout) }))
}

/// As poll(2), with descriptors of any kind.
///
/// # Safety
/// `count` records can be read and written at `polled`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_poll(
    polled: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout_ms: c_int,
) -> c_int {
    outcome(|| {
        if polled.is_null() && count > 0 {
            return Err(failed(libc::EFAULT));
        }
        // SAFETY: the caller's promise.
        checked(unsafe { libc::poll(polled, count, timeout_ms) })
    })
}

/// As fcntl(2); the argument is always given, and 0 where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn dtp_fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    outcome(|| {
        find(fd)?;
        match command {
            libc::F_DUPFD
            | libc::F_DUPFD_CLOEXEC
            | libc::F_GETFD
            | libc::F_SETFD
            | libc::F_GETFL
            | libc::F_SETFL => {
                // SAFETY: these commands take numbers.
                checked(unsafe { libc::fcntl(fd, command, argument) })
            }
            _ => Err(failed(libc::EINVAL)),
        }
    })
}

/// As ioctl(2): `FIONREAD` and `FIONBIO`.
///
/// # Safety
/// `argument` is null or good for an `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    outcome(|| {
        find(fd)?;
        if request != libc::FIONREAD && request != libc::FIONBIO {
            return Err(failed(libc::ENOTTY));
        }
        if argument.is_null() {
            return Err(failed(libc::EFAULT));
        }
        // SAFETY: the caller's promise; both requests are about an int.
        checked(unsafe { libc::ioctl(fd, request, argument) })
    })
}

/// This end's address; a client's port changes with its network, and its address is any.
///
/// # Safety
/// Unless they are null, `length` can be read and written, and as many octets as it says can be written at `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_getsockname(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    outcome(|| {
        let entry = find(fd)?;
        let local = {
            let inner = entry.lock();
            let any: SocketAddr = if inner.is_v6 {
                (Ipv6Addr::UNSPECIFIED, 0).into()
            } else {
                (Ipv4Addr::UNSPECIFIED, 0).into()
            };
            match &inner.phase {
                Phase::Listening(address) => *address,
                Phase::Connected(stream, _) => match stream.local_addr() {
                    local if local.is_ipv6() == inner.is_v6 => local,
                    local => (any.ip(), local.port()).into(),
                },
                _ => inner.bound.unwrap_or(any),
            }
        };
        // SAFETY: the caller's promise.
        unsafe { address::write(local, address, length) }?;
        Ok(0)
    })
}

/// Where the peer is now.
///
/// # Safety
/// Unless they are null, `length` can be read and written, and as many octets as it says can be written at `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    outcome(|| {
        let entry = find(fd)?;
        let (stream, first) = match &entry.lock().phase {
            Phase::Connected(stream, first) => (std::sync::Arc::clone(stream), *first),
            _ => return Err(failed(libc::ENOTCONN)),
        };
        let peer = stream.peer_addr().unwrap_or(first);
        // SAFETY: the caller's promise.
        unsafe { address::write(peer, address, length) }?;
        Ok(0)
    })
}
