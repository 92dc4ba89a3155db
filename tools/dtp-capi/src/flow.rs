//! The threads behind descriptors: they connect, accept, and carry octets.

use crate::table::{Entry, Inner, Options, Phase, find, inode, insert};
use heddle_core::dtp::modern::{Identity, Pattern, Phase as FlowPhase};
use heddle_dtp::gateway::{BROKEN, pump};
use heddle_dtp::{Connector, DtpListener, DtpStream, Settings, Trust};
use libc::c_int;
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a thread looks whether its descriptor is closed or its deadline has passed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs `work` with all signals blocked, so that the threads that it starts leave them to the application's.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are there to be written; zeroes are a set.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: the set that was read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.into());
    quietly(|| builder.spawn(work)).map(drop)
}

pub fn failed(errno: c_int) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// The errno of an error.
pub fn errno_of(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or_else(|| match error.kind() {
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::PermissionDenied => libc::EKEYREJECTED,
        ErrorKind::ConnectionReset => libc::ECONNRESET,
        ErrorKind::ConnectionAborted => libc::ECONNABORTED,
        ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        ErrorKind::NotConnected => libc::ENOTCONN,
        ErrorKind::BrokenPipe => libc::EPIPE,
        ErrorKind::InvalidInput | ErrorKind::InvalidData => libc::EINVAL,
        ErrorKind::WouldBlock => libc::EAGAIN,
        ErrorKind::Interrupted => libc::EINTR,
        ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => libc::EIO,
    })
}

fn set_send_buffer(socket: RawFd, octets: u32) -> io::Result<()> {
    let value = c_int::try_from(octets).unwrap_or(c_int::MAX);
    // SAFETY: the value is there to be read, and the length is right.
    let result = unsafe {
        let length = size_of::<c_int>() as libc::socklen_t;
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const value).cast(),
            length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets how many octets may wait while a descriptor is writable: the kernel doubles what it is told, and a local socket is writable while it is a quarter full.
pub fn set_low_water(fd: RawFd, octets: u32) -> io::Result<()> {
    set_send_buffer(fd, octets.saturating_mul(2))
}

/// A descriptor for the application, which is not writable as long as it is not connected.
pub fn descriptor(is_v6: bool, flags: c_int, options: Options) -> io::Result<RawFd> {
    let (outside, inside) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
    outside.set_cloexec(flags & libc::SOCK_CLOEXEC != 0)?;
    outside.set_nonblocking(true)?;
    set_send_buffer(outside.as_raw_fd(), 1)?;
    let mut stuffing = 0;
    loop {
        match outside.send(&[0]) {
            Ok(_) => stuffing += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    outside.set_nonblocking(flags & libc::SOCK_NONBLOCK != 0)?;
    let inner = Inner {
        phase: Phase::Fresh,
        options,
        is_v6,
        bound: None,
        waiting: VecDeque::new(),
        backlog: 0,
        error: 0,
        is_gone: false,
    };
    let entry = Entry::new(inside, stuffing, inode(outside.as_raw_fd())?, inner);
    insert(Arc::new(entry));
    Ok(OwnedFd::from(outside).into_raw_fd())
}

/// All clients share an endpoint, whose memory is the process's for good.
fn client() -> io::Result<Connector> {
    static CLIENT: Mutex<Option<Connector>> = Mutex::new(None);
    let mut client = CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = &*client {
        return Ok(client.clone());
    }
    let settings = Settings { flows: 1024, actives: 64, buffer: 1 << 20, ..Settings::default() };
    let new = quietly(|| Connector::with_settings(Trust::PreShared([0; 32]), &settings))?;
    *client = Some(new.clone());
    Ok(new)
}

/// Begins to connect.
pub fn connect(entry: &Arc<Entry>, fd: RawFd, address: SocketAddr) -> io::Result<()> {
    let mut inner = entry.lock();
    match inner.phase {
        Phase::Fresh => {}
        Phase::Connecting => return Err(failed(libc::EALREADY)),
        Phase::Connected(..) => return Err(failed(libc::EISCONN)),
        Phase::Listening(_) | Phase::Ended => return Err(failed(libc::EINVAL)),
    }
    if inner.bound.is_some() {
        // A client's address is what may change: the system chooses it.
        return Err(failed(libc::EOPNOTSUPP));
    }
    let options = inner.options.clone();
    let trust = match (options.server_key, options.pre_shared) {
        (Some(_), Some(_)) => return Err(failed(libc::EINVAL)),
        (Some(key), None) => Trust::Key(key),
        (None, Some(key)) => Trust::PreShared(key),
        (None, None) => return Err(failed(libc::ENOKEY)),
    };
    let mut connector = client()?;
    connector.trust = trust;
    connector.private = options.private;
    connector.keep_alive = Duration::from_secs(options.keep_alive_s.into());
    // A copy, as the application may close its own while the thread connects.
    // SAFETY: a system call on a number.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // Only the thread that begins sets the size, before anybody else could.
    // SAFETY: the copy was made right above, and nobody else has it.
    let copy = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(copy) };
    let deadline = deadline(&options);
    let (ours, theirs) = (Arc::clone(entry), Arc::clone(entry));
    inner.phase = Phase::Connecting;
    inner.error = 0;
    drop(inner);
    let watched = deadline.is_none() || {
        spawn("dtp-deadline", move || {
            let mut inner = theirs.lock();
            while matches!(inner.phase, Phase::Connecting) {
                let left = deadline
                    .map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    drop(inner);
                    return end(&theirs, libc::ETIMEDOUT);
                }
                inner = theirs.wait(inner, left);
            }
        })
        .is_ok()
    };
    let started = watched
        && spawn("dtp-connect", move || match connector.connect(address) {
            Ok(stream) => begin(&ours, copy, stream, address, deadline),
            Err(error) => {
                drop(copy);
                end(&ours, errno_of(&error));
            }
        })
        .is_ok();
    if !started {
        end(entry, libc::EAGAIN);
        return Err(failed(libc::EAGAIN));
    }
    Ok(())
}

fn deadline(options: &Options) -> Option<Instant> {
    let duration = Duration::from_millis(options.deadline_ms);
    if duration.is_zero() { None } else { Instant::now().checked_add(duration) }
}

/// The descriptor has no flow any more: who waits for it is told.
fn end(entry: &Entry, error: c_int) {
    let mut inner = entry.lock();
    if matches!(inner.phase, Phase::Ended) {
        return;
    }
    inner.phase = Phase::Ended;
    if inner.error == 0 {
        inner.error = error;
    }
    inner.waiting.clear();
    drop(inner);
    // The application sees the end of the stream, and writes fail. What it has not read yet it still can.
    let _ = entry.inside.shutdown(Shutdown::Both);
    entry.tell();
}

/// A stream is there: the descriptor becomes writable, and octets are carried.
fn begin(
    entry: &Arc<Entry>,
    outside: OwnedFd,
    stream: DtpStream,
    peer: SocketAddr,
    deadline: Option<Instant>,
) {
    let stream = Arc::new(stream);
    {
        let mut inner = entry.lock();
        if matches!(inner.phase, Phase::Ended) {
            return;
        }
        inner.phase = Phase::Connected(Arc::clone(&stream), peer);
        let mut stuffing = vec![0; entry.stuffing];
        let made_way = set_low_water(outside.as_raw_fd(), inner.options.low_water)
            .and_then(|()| (&entry.inside).read_exact(&mut stuffing));
        drop(outside);
        if let Err(error) = made_way {
            drop(inner);
            return end(entry, errno_of(&error));
        }
    }
    entry.tell();
    let (ours, written) = (Arc::clone(entry), Arc::clone(&stream));
    let writer = spawn("dtp-out", move || {
        let result = pump(&ours.inside, &*written, &AtomicU64::new(0))
            .and_then(|()| written.shutdown(Shutdown::Write));
        if let Err(error) = result {
            written.abort(BROKEN);
            end(&ours, errno_of(&error));
        }
    });
    if writer.is_err() {
        stream.abort(BROKEN);
        return end(entry, libc::EAGAIN);
    }
    stream.set_read_timeout(Some(LOOK_EVERY));
    let watched = Watched { stream: &stream, entry, deadline };
    match pump(&watched, &entry.inside, &AtomicU64::new(0)) {
        Ok(()) => {
            let _ = entry.inside.shutdown(Shutdown::Write);
            // The other direction may go on for long.
            while watched.goes_on().is_ok() {
                std::thread::sleep(LOOK_EVERY);
            }
            finish(&watched);
        }
        Err(_) if entry.is_abandoned() && !watched.is_late() => finish(&watched),
        Err(error) => {
            stream.abort(BROKEN);
            end(entry, errno_of(&error));
        }
    }
    let (endpoint, id) = (stream.endpoint().clone(), stream.flow_id());
    drop(stream);
    // A process that closes and ends waits here, so that its last octets are not lost with it.
    while endpoint.flows().iter().any(|flow| flow.id == id && flow.phase != FlowPhase::Closed) {
        std::thread::sleep(Duration::from_millis(10));
    }
    entry.lock().is_gone = true;
    entry.tell();
}

/// The application has gone: what it has written goes out before the flow is closed.
fn finish(watched: &Watched<'_>) {
    // The other thread has its share of the stream until all is written.
    while Arc::strong_count(watched.stream) > 2 && !watched.is_late() {
        std::thread::sleep(Duration::from_millis(5));
    }
    if watched.is_late() {
        watched.stream.abort(BROKEN);
        return end(watched.entry, libc::ETIMEDOUT);
    }
    end(watched.entry, 0);
}

/// A stream, read with an eye on the application.
struct Watched<'a> {
    stream: &'a Arc<DtpStream>,
    entry: &'a Entry,
    deadline: Option<Instant>,
}

impl Watched<'_> {
    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn goes_on(&self) -> io::Result<()> {
        if self.is_late() {
            return Err(failed(libc::ETIMEDOUT));
        }
        if self.entry.is_abandoned() { Err(failed(libc::EPIPE)) } else { Ok(()) }
    }
}

impl Read for &Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            self.goes_on()?;
            match (&**self.stream).read(out) {
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                other => return other,
            }
        }
    }
}

/// Takes flows at the bound address; the descriptor becomes readable when one waits.
pub fn listen(entry: &Arc<Entry>, backlog: usize) -> io::Result<()> {
    let mut inner = entry.lock();
    match inner.phase {
        Phase::Fresh => {}
        Phase::Listening(_) => {
            inner.backlog = backlog;
            return Ok(());
        }
        _ => return Err(failed(libc::EINVAL)),
    }
    let address = inner.bound.ok_or_else(|| failed(libc::EDESTADDRREQ))?;
    let options = &inner.options;
    let mut patterns = Vec::new();
    match (options.private, options.authorized.is_empty()) {
        (Some(_), false) => patterns.push(Pattern::KnownServerClientKey),
        (Some(_), true) => patterns.extend([Pattern::KnownServer, Pattern::UnknownServer]),
        (None, _) => {}
    }
    if options.pre_shared.is_some() {
        patterns.push(Pattern::PreShared);
    }
    if patterns.is_empty() {
        return Err(failed(libc::ENOKEY));
    }
    let identity =
        Identity { private: options.private, server: None, pre_shared: options.pre_shared };
    let settings = Settings {
        flows: 4096,
        actives: 64,
        buffer: 1 << 20,
        identity,
        patterns,
        authorized: options.authorized.clone(),
        keep_alive_cap: Duration::from_secs(options.keep_alive_s.into()),
        ..Settings::default()
    };
    let listener = quietly(|| DtpListener::bind(address, &settings))?;
    inner.phase = Phase::Listening(listener.local_addr());
    inner.backlog = backlog;
    drop(inner);
    let ours = Arc::clone(entry);
    spawn("dtp-accept", move || {
        let error = loop {
            if ours.is_abandoned() {
                break 0;
            }
            {
                let inner = ours.lock();
                if inner.waiting.len() >= inner.backlog {
                    drop(ours.wait(inner, LOOK_EVERY));
                    continue;
                }
            }
            match listener.accept_within(LOOK_EVERY) {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let mut inner = ours.lock();
                    inner.waiting.push_back(accepted);
                    // An octet for each flow; a descriptor that is closed is found out above.
                    let _ = ours.inside.send(&[0]);
                }
                Err(error) => break errno_of(&error),
            }
        };
        end(&ours, error);
        ours.lock().is_gone = true;
        ours.tell();
    })
    .inspect_err(|_| end(entry, libc::EAGAIN))
}

/// A descriptor for the flow that has waited longest.
pub fn accept(fd: RawFd, flags: c_int) -> io::Result<(RawFd, SocketAddr)> {
    let entry = find(fd)?;
    if !matches!(entry.lock().phase, Phase::Listening(_)) {
        return Err(failed(libc::EINVAL));
    }
    let mut token = 0u8;
    // SAFETY: one octet is there to be written.
    match unsafe { libc::recv(fd, (&raw mut token).cast(), 1, 0) } {
        1 => {}
        0 => return Err(failed(libc::ECONNABORTED)),
        _ => return Err(io::Error::last_os_error()),
    }
    let (stream, peer, options, is_v6) = {
        let mut inner = entry.lock();
        let (stream, peer) = inner.waiting.pop_front().ok_or_else(|| failed(libc::ECONNABORTED))?;
        (stream, peer, inner.options.clone(), inner.is_v6)
    };
    entry.tell();
    let accepted = descriptor(is_v6, flags, options)?;
    let started = find(accepted).and_then(|entry| {
        // SAFETY: a system call on a number.
        let copy = unsafe { libc::fcntl(accepted, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the copy was made right above, and nobody else has it.
        let copy = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(copy) };
        let deadline = deadline(&entry.lock().options);
        entry.lock().phase = Phase::Connecting;
        let ours = Arc::clone(&entry);
        spawn("dtp-in", move || begin(&ours, copy, stream, peer, deadline))?;
        // From the first call on the descriptor is a connected one.
        let mut inner = entry.lock();
        while matches!(inner.phase, Phase::Connecting) {
            inner = entry.wait(inner, LOOK_EVERY);
        }
        Ok(())
    });
    if let Err(error) = started {
        // SAFETY: the descriptor was made above, and the application has not got it.
        unsafe { libc::close(accepted) };
        return Err(error);
    }
    Ok((accepted, peer))
}
