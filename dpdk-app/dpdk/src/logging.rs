//! Where DPDK's log lines go: to stderr, or into the error that they explain.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Mutex;

/// The two streams that DPDK may log to. They are made once and never closed, because a thread of
/// DPDK's own may be in the middle of a line when the stream is changed.
struct Streams {
    stderr: *mut libc::FILE,
    capture: *mut libc::FILE,
    /// The captured octets, to read back.
    captured: File,
}

// SAFETY: a FILE of the C library locks itself, so any thread may write to it; `captured` is a File.
unsafe impl Send for Streams {}

static STREAMS: Mutex<Option<Streams>> = Mutex::new(None);

/// Runs `work` with DPDK's log lines caught, and returns them beside the result.
///
/// Where no stream can be made the lines go where DPDK sends them by default.
pub(crate) fn capture<R>(work: impl FnOnce() -> R) -> (R, String) {
    let mut streams = match STREAMS.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    };
    if streams.is_none() {
        *streams = Streams::open();
    }
    let Some(streams) = streams.as_mut() else {
        return (work(), String::new());
    };
    let start = streams.captured.seek(SeekFrom::End(0)).unwrap_or(0);
    set_stream(streams.capture);
    let result = work();
    set_stream(streams.stderr);
    let mut text = Vec::new();
    if streams.captured.seek(SeekFrom::Start(start)).is_ok() {
        // What cannot be read back is only missing from a message.
        let _ = streams.captured.read_to_end(&mut text);
    }
    (result, String::from_utf8_lossy(&text).into_owned())
}

fn set_stream(stream: *mut libc::FILE) {
    // SAFETY: `stream` is an open stream that is never closed. rte_openlog_stream stores the pointer and
    // needs no EAL; the two FILE types are the same type of the C library under two names.
    unsafe { dpdk_sys::rte_openlog_stream(stream.cast()) };
}

impl Streams {
    fn open() -> Option<Self> {
        let name = CString::new("dpdk-log").ok()?;
        // SAFETY: the name is NUL-terminated; the result is checked before it is used.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the descriptor is new, so `captured` is its only owner; the stream gets its own copy.
        let captured = unsafe { File::from_raw_fd(descriptor) };
        Some(Self {
            stderr: stream_on_copy(libc::STDERR_FILENO)?,
            capture: stream_on_copy(captured.as_raw_fd())?,
            captured,
        })
    }
}

/// An unbuffered stream on a copy of `descriptor` that appends.
fn stream_on_copy(descriptor: i32) -> Option<*mut libc::FILE> {
    // SAFETY: F_DUPFD_CLOEXEC takes any descriptor number and fails on a bad one; fdopen gets a
    // descriptor that nothing else owns and a NUL-terminated mode; setvbuf gets the open stream and no
    // buffer, as _IONBF wants it, before anything was written.
    unsafe {
        let copy = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3);
        if copy < 0 {
            return None;
        }
        let stream = libc::fdopen(copy, c"a".as_ptr());
        if stream.is_null() {
            libc::close(copy);
            return None;
        }
        libc::setvbuf(stream, std::ptr::null_mut(), libc::_IONBF, 0);
        Some(stream)
    }
}
