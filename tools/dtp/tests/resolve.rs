//! A server whose address changes while its clients' flows wait: its name is resolved again, and the flows go on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{Identity, Pattern, public_key};
use heddle_dtp::{Connector, DtpListener, Settings, Trust};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SERVER: [u8; 32] = [5; 32];

/// An address of the server's, which it has until this is dropped.
struct Address {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Address {
    fn of(server: SocketAddr) -> Self {
        let [front, back] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        }
        let at = front.local_addr().unwrap();
        let (client, stop) = (Arc::new(Mutex::new(at)), Arc::<AtomicBool>::default());
        let (front, back) = (Arc::new(front), Arc::new(back));
        let pass = |from: &Arc<UdpSocket>, to: &Arc<UdpSocket>, up: bool| {
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            let (client, stop) = (Arc::clone(&client), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((octets, sender)) = from.recv_from(&mut buffer) else { continue };
                    if up {
                        *client.lock().unwrap() = sender;
                    }
                    let target = if up { server } else { *client.lock().unwrap() };
                    let _ = to.send_to(&buffer[..octets], target);
                }
            })
        };
        let threads = vec![pass(&front, &back, true), pass(&back, &front, false)];
        Self { at, stop, threads }
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_flow_goes_to_where_its_servers_name_leads() {
    let settings = Settings { buffer: 1 << 16, ..Settings::default() };
    let server = DtpListener::bind(
        "127.0.0.1:0".parse().unwrap(),
        &Settings {
            identity: Identity { private: Some(SERVER), server: None, pre_shared: None },
            patterns: vec![Pattern::KnownServer],
            ..settings.clone()
        },
    )
    .unwrap();
    let first = Address::of(server.local_addr());
    // What the name leads to, and how often it was asked.
    let (port, asked) = (Arc::new(AtomicU16::new(first.at.port())), Arc::<AtomicUsize>::default());
    let trust = Trust::Key(public_key(&SERVER));
    let connector = Connector::with_settings(trust, &settings).unwrap();
    let (name, count) = (Arc::clone(&port), Arc::clone(&asked));
    connector
        .follow_with(move || {
            // The first answer never comes, which must not matter.
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(ErrorKind::TimedOut.into());
            }
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], name.load(Ordering::SeqCst)))])
        })
        .unwrap();
    let client = connector.connect(first.at).unwrap();
    let (served, _) = server.accept().unwrap();
    let mut word = [0; 6];
    (&client).write_all(b"before").unwrap();
    (&served).read_exact(&mut word).unwrap();
    assert_eq!(&word, b"before");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nobody asks while all is well");

    drop(first);
    (&client).write_all(b"during").unwrap();
    let start = Instant::now();
    while !client.is_suspended() {
        assert!(start.elapsed() < Duration::from_secs(60), "the flow is not suspended");
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = Address::of(server.local_addr());
    port.store(second.at.port(), Ordering::SeqCst);
    served.set_read_timeout(Some(Duration::from_secs(60)));
    (&served).read_exact(&mut word).unwrap();
    assert_eq!(&word, b"during");
    assert_eq!(client.peer_addr().unwrap(), second.at);
    (&served).write_all(b"behind").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60)));
    (&client).read_exact(&mut word).unwrap();
    assert_eq!(&word, b"behind");
    assert!(asked.load(Ordering::SeqCst) >= 2);
}
