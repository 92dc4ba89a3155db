//! The options of descriptors.

use crate::flow::{failed, set_low_water};
use crate::table::{Entry, Inner, Key, Phase, find};
use crate::{checked, outcome};
use libc::{c_int, c_void, socklen_t};
use std::io;
use std::sync::Arc;

/// The level of DTP's own options.
const LEVEL: c_int = 0x445450;

const SERVER_KEY: c_int = 1;
const PRE_SHARED: c_int = 2;
const PRIVATE_KEY: c_int = 3;
const AUTHORIZED_KEY: c_int = 4;
const KEEP_ALIVE: c_int = 5;
const DEADLINE: c_int = 6;
const LOW_WATER: c_int = 7;
const LINGER: c_int = 8;
const FLOW_ID: c_int = 9;
const SUSPENDED: c_int = 10;
const PUBLIC_KEY: c_int = 11;
const ACKNOWLEDGED: c_int = 12;

/// The options of `SOL_SOCKET` that mean on this descriptor what they mean on its local socket.
const PASSED: [c_int; 3] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, libc::SO_TYPE];

/// A key: 32 octets, or 64 hexadecimal digits.
fn key(octets: &[u8]) -> io::Result<Key> {
    let octets = octets.strip_suffix(&[0]).filter(|rest| rest.len() == 64).unwrap_or(octets);
    if let Ok(key) = octets.try_into() {
        return Ok(key);
    }
    let text = std::str::from_utf8(octets).map_err(|_| failed(libc::EINVAL))?;
    heddle_dtp::keys::from_text(text)
}

fn number(octets: &[u8]) -> io::Result<u32> {
    octets.try_into().map(u32::from_ne_bytes).map_err(|_| failed(libc::EINVAL))
}

fn set(fd: c_int, entry: &Arc<Entry>, name: c_int, value: &[u8]) -> io::Result<()> {
    let mut inner = entry.lock();
    if name == LOW_WATER {
        let octets = number(value)?;
        if octets == 0 || octets > 1 << 28 {
            return Err(failed(libc::EINVAL));
        }
        inner.options.low_water = octets;
        // Before it is connected the buffer is small so that the descriptor is not writable.
        return match inner.phase {
            Phase::Connected(..) => set_low_water(fd, octets),
            _ => Ok(()),
        };
    }
    if name == LINGER {
        inner.options.linger_ms = number(value)?;
        return Ok(());
    }
    let is_fresh = matches!(inner.phase, Phase::Fresh);
    let options = &mut inner.options;
    match name {
        FLOW_ID | SUSPENDED | PUBLIC_KEY | ACKNOWLEDGED => Err(failed(libc::ENOPROTOOPT)),
        SERVER_KEY..=DEADLINE if !is_fresh => Err(failed(libc::EISCONN)),
        SERVER_KEY => key(value).map(|key| options.server_key = Some(key)),
        PRE_SHARED => key(value).map(|key| options.pre_shared = Some(key)),
        PRIVATE_KEY => key(value).map(|key| options.private = Some(key)),
        AUTHORIZED_KEY => key(value).map(|key| options.authorized.push(key)),
        KEEP_ALIVE => number(value).map(|seconds| options.keep_alive_s = seconds),
        DEADLINE => {
            let ms = value.try_into().map_err(|_| failed(libc::EINVAL))?;
            options.deadline_ms = u64::from_ne_bytes(ms);
            Ok(())
        }
        _ => Err(failed(libc::ENOPROTOOPT)),
    }
}

fn get(inner: &Inner, name: c_int) -> io::Result<Vec<u8>> {
    let options = &inner.options;
    let stream = match &inner.phase {
        Phase::Connected(stream, _) => Some(stream),
        _ => None,
    };
    let not_connected = || failed(libc::ENOTCONN);
    Ok(match name {
        SERVER_KEY => options.server_key.ok_or_else(|| failed(libc::ENOKEY))?.to_vec(),
        PUBLIC_KEY => {
            let private = options.private.as_ref().ok_or_else(|| failed(libc::ENOKEY))?;
            heddle_dtp::keys::public(private).to_vec()
        }
        KEEP_ALIVE => {
            let granted =
                stream.and_then(|stream| u32::try_from(stream.keep_alive().as_secs()).ok());
            granted.unwrap_or(options.keep_alive_s).to_ne_bytes().to_vec()
        }
        DEADLINE => options.deadline_ms.to_ne_bytes().to_vec(),
        LOW_WATER => options.low_water.to_ne_bytes().to_vec(),
        LINGER => options.linger_ms.to_ne_bytes().to_vec(),
        FLOW_ID => {
            let (place, generation) = stream.ok_or_else(not_connected)?.flow_id();
            [place.to_ne_bytes(), generation.to_ne_bytes()].concat()
        }
        SUSPENDED => {
            c_int::from(stream.ok_or_else(not_connected)?.is_suspended()).to_ne_bytes().to_vec()
        }
        ACKNOWLEDGED => {
            let octets = stream.ok_or_else(not_connected)?.acknowledged();
            octets.ok_or_else(|| failed(libc::EAGAIN))?.to_ne_bytes().to_vec()
        }
        // Secrets are not given back.
        _ => return Err(failed(libc::ENOPROTOOPT)),
    })
}

/// As setsockopt(2): `DTP_LEVEL` with the options of `dtp.h`, and `SO_RCVTIMEO` and `SO_SNDTIMEO`. ENOPROTOOPT for others, EINVAL for values of the wrong size.
///
/// # Safety
/// `length` octets can be read at `value`, unless it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    outcome(|| {
        let entry = find(fd)?;
        if value.is_null() {
            return Err(failed(libc::EFAULT));
        }
        match level {
            LEVEL => {
                // SAFETY: the caller's promise; not null.
                let value =
                    unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length as usize) };
                set(fd, &entry, name, value).map(|()| 0)
            }
            libc::SOL_SOCKET if name != libc::SO_TYPE && PASSED.contains(&name) => {
                // SAFETY: the caller's promise.
                checked(unsafe { libc::setsockopt(fd, level, name, value, length) })
            }
            _ => Err(failed(libc::ENOPROTOOPT)),
        }
    })
}

/// As getsockopt(2): what [`dtp_setsockopt`] sets but secrets, what only can be read, `SO_ERROR`, `SO_TYPE` and `SO_ACCEPTCONN`.
///
/// # Safety
/// Unless they are null, `length` can be read and written, and as many octets as it says can be written at `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dtp_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    outcome(|| {
        let entry = find(fd)?;
        if value.is_null() || length.is_null() {
            return Err(failed(libc::EFAULT));
        }
        let mut inner = entry.lock();
        let answer = match (level, name) {
            (LEVEL, _) => get(&inner, name)?,
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                std::mem::take(&mut inner.error).to_ne_bytes().to_vec()
            }
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                c_int::from(matches!(inner.phase, Phase::Listening(_))).to_ne_bytes().to_vec()
            }
            (libc::SOL_SOCKET, _) if PASSED.contains(&name) => {
                // SAFETY: the caller's promise.
                return checked(unsafe { libc::getsockopt(fd, level, name, value, length) });
            }
            _ => return Err(failed(libc::ENOPROTOOPT)),
        };
        // SAFETY: the caller's promise; not null.
        let room = unsafe { length.read_unaligned() } as usize;
        if room < answer.len() {
            return Err(failed(libc::EINVAL));
        }
        // SAFETY: there is room for the whole answer, and its length fits.
        unsafe {
            std::ptr::copy_nonoverlapping(answer.as_ptr(), value.cast::<u8>(), answer.len());
            length.write_unaligned(answer.len() as socklen_t);
        }
        Ok(0)
    })
}
