//! A download over TCP that begins anew when its network was away, as one does that cannot ask for a part of a file.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{ADDRESSES, PORT};
use crate::error::{Error, Result};
use crate::namespace::Namespace;

/// How long a socket waits before the thread looks around.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A server that sends one file to whoever connects.
pub struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(namespace: &Namespace, file: &Path) -> Result<Self> {
        let [_, address] = ADDRESSES;
        let listener = namespace
            .enter(|| TcpListener::bind((address, PORT)).map_err(Error::io("listen for TCP")))?;
        listener.set_nonblocking(true).map_err(Error::io("listen for TCP"))?;
        let stop = Arc::<AtomicBool>::default();
        let (thread_stop, file) = (Arc::clone(&stop), file.to_path_buf());
        let thread = std::thread::Builder::new()
            .name("tcp-server".into())
            .spawn(move || {
                while !thread_stop.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((stream, _)) => {
                            let (stop, file) = (Arc::clone(&thread_stop), file.clone());
                            std::thread::spawn(move || send(stream, &file, &stop));
                        }
                        Err(_) => std::thread::sleep(LOOK_EVERY),
                    }
                }
            })
            .map_err(Error::io("start a thread"))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends the file until its end or the client's.
fn send(mut stream: TcpStream, file: &Path, stop: &AtomicBool) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_write_timeout(Some(LOOK_EVERY));
    let Ok(mut file) = File::open(file) else { return };
    let mut buffer = vec![0; 1 << 16];
    while let Ok(octets @ 1..) = file.read(&mut buffer) {
        let mut rest = buffer.get(..octets).unwrap_or(&[]);
        while !rest.is_empty() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            match stream.write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or(&[]),
                Err(error) if is_wait(error.kind()) => {}
                Err(_) => return,
            }
        }
    }
}

fn is_wait(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Counts up when the network is there again.
    network: AtomicU32,
    octets: AtomicU64,
    fetched: AtomicU64,
    restarts: AtomicU32,
    is_done: AtomicBool,
}

/// The client. It learns at once that the network is back, which is more than TCP tells its users.
pub struct Download {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Download {
    pub fn start(namespace: &Namespace, target: &Path, octets: u64) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let thread_shared = Arc::clone(&shared);
        let (namespace, target) = (namespace.clone(), target.to_path_buf());
        let thread = std::thread::Builder::new()
            .name("tcp-client".into())
            .spawn(move || {
                let fetched = namespace.enter(|| {
                    fetch(&target, octets, &thread_shared);
                    Ok(())
                });
                if let Err(error) = fetched {
                    eprintln!("heddle: {error}");
                }
            })
            .map_err(Error::io("start a thread"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub fn begin_anew(&self) {
        self.shared.network.fetch_add(1, Ordering::Relaxed);
    }

    pub fn octets(&self) -> u64 {
        self.shared.octets.load(Ordering::Relaxed)
    }

    pub fn fetched(&self) -> u64 {
        self.shared.fetched.load(Ordering::Relaxed)
    }

    pub fn restarts(&self) -> u32 {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    pub fn is_done(&self) -> bool {
        self.shared.is_done.load(Ordering::Relaxed)
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Begins until the file is whole.
fn fetch(target: &PathBuf, octets: u64, shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        let network = shared.network.load(Ordering::Relaxed);
        if attempt(target, octets, network, shared).is_ok_and(|whole| whole) {
            shared.is_done.store(true, Ordering::Relaxed);
            return;
        }
        shared.restarts.fetch_add(1, Ordering::Relaxed);
        // Without a network there is no use in trying.
        while shared.network.load(Ordering::Relaxed) == network {
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        shared.octets.store(0, Ordering::Relaxed);
    }
}

/// Fetches from the beginning; gives whether it came to the end before the network changed.
fn attempt(target: &PathBuf, octets: u64, network: u32, shared: &Shared) -> std::io::Result<bool> {
    let [_, address] = ADDRESSES;
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((address, PORT)), Duration::from_secs(1))?;
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    let mut file = File::create(target)?;
    let mut buffer = vec![0; 1 << 16];
    let mut done = 0;
    while done < octets {
        if shared.stop.load(Ordering::Relaxed) || shared.network.load(Ordering::Relaxed) != network
        {
            return Ok(false);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                file.write_all(buffer.get(..count).unwrap_or(&[]))?;
                done += count as u64;
                shared.octets.store(done, Ordering::Relaxed);
                shared.fetched.fetch_add(count as u64, Ordering::Relaxed);
            }
            Err(error) if is_wait(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
