//! From descriptors to what they stand for.
//!
//! The key is the inode of the application's socket, which copies of a descriptor share and which no other open file of the process has.

use socket2::Socket;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heddle_dtp::DtpStream;
use libc::c_int;

/// A key of 32 octets.
pub type Key = [u8; 32];

/// What is set before a descriptor connects or listens.
#[derive(Clone)]
pub struct Options {
    pub server_key: Option<Key>,
    pub pre_shared: Option<Key>,
    pub private: Option<Key>,
    pub authorized: Vec<Key>,
    pub keep_alive_s: u32,
    /// Milliseconds after the connection was begun; 0 for none.
    pub deadline_ms: u64,
    /// Octets that may wait before the flow while the descriptor is writable.
    pub low_water: u32,
    /// Milliseconds that closing waits for the peer to have everything.
    pub linger_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server_key: None,
            pre_shared: None,
            private: None,
            authorized: Vec::new(),
            keep_alive_s: 24 * 3600,
            deadline_ms: 0,
            low_water: 1 << 16,
            linger_ms: 10_000,
        }
    }
}

/// Where a descriptor is in its life.
#[derive(Clone)]
pub enum Phase {
    Fresh,
    Connecting,
    Connected(Arc<DtpStream>, SocketAddr),
    Listening(SocketAddr),
    /// Its flow is gone, or there never was one.
    Ended,
}

/// What changes.
pub struct Inner {
    pub phase: Phase,
    pub options: Options,
    pub is_v6: bool,
    pub bound: Option<SocketAddr>,
    /// Streams that nobody has accepted yet.
    pub waiting: VecDeque<(DtpStream, SocketAddr)>,
    pub backlog: usize,
    /// The error that the next call gives, as errno; 0 for none.
    pub error: c_int,
    /// The flow has been closed and its peer knows.
    pub is_gone: bool,
}

/// What a descriptor stands for.
pub struct Entry {
    /// The end of the pair that the application has not.
    pub inside: Socket,
    /// Octets in the application's buffer that keep it from being writable until it is connected.
    pub stuffing: usize,
    inode: u64,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Entry {
    pub fn new(inside: Socket, stuffing: usize, inode: u64, inner: Inner) -> Self {
        Self { inside, stuffing, inode, inner: Mutex::new(inner), changed: Condvar::new() }
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those that wait for a change.
    pub fn tell(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change, for a while.
    pub fn wait<'a>(
        &self,
        inner: MutexGuard<'a, Inner>,
        patience: Duration,
    ) -> MutexGuard<'a, Inner> {
        self.changed.wait_timeout(inner, patience).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Whether the application has closed its last descriptor, or ended both directions.
    pub fn is_abandoned(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.inside.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one record, there to be read and written.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready > 0 && poll.revents & libc::POLLHUP != 0
    }

    /// Takes the entry out of the table.
    pub fn forget(&self) {
        table().remove(&self.inode);
    }
}

type Table = HashMap<u64, Arc<Entry>>;

fn table() -> MutexGuard<'static, Table> {
    static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The inode of an open socket.
pub fn inode(fd: RawFd) -> io::Result<u64> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: there is room for the answer.
    if unsafe { libc::fstat(fd, status.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroes are a value of this type, and the system has written over them.
    let status = unsafe { status.assume_init() };
    if status.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        return Err(io::Error::from_raw_os_error(libc::ENOTSOCK));
    }
    Ok(status.st_ino)
}

/// What a descriptor stands for.
pub fn find(fd: RawFd) -> io::Result<Arc<Entry>> {
    let found = table().get(&inode(fd)?).cloned();
    found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTSOCK))
}

/// So many descriptors without a flow may be closed by close(2) before the table is swept.
const SWEPT_FROM: usize = 256;

/// Adds an entry, and drops those of descriptors that are not open any more.
pub fn insert(entry: Arc<Entry>) {
    let mut table = table();
    let is_idle = |entry: &Entry| matches!(entry.lock().phase, Phase::Fresh | Phase::Ended);
    if table.values().filter(|entry| is_idle(entry)).count() >= SWEPT_FROM {
        let open = open_sockets();
        table.retain(|inode, entry| !is_idle(entry) || open.contains(inode));
    }
    table.insert(entry.inode, entry);
}

fn open_sockets() -> HashSet<u64> {
    let descriptors = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let inode = |target: std::path::PathBuf| {
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    targets.filter_map(inode).collect()
}
