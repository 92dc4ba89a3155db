//! Two servers behind one address: what stands before them tells by the ids alone whose a datagram is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{Identity, Pattern, Steerer, Steering};
use heddle_dtp::{Connector, DtpListener, Settings, Steered, Trust};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const SHARED: [u8; 32] = [7; 32];
const ID_KEY: [u8; 32] = [8; 32];
const NUMBERS: [u16; 2] = [3, 500];

fn listener(number: u16) -> DtpListener {
    let settings = Settings {
        buffer: 1 << 16,
        identity: Identity { pre_shared: Some(SHARED), ..Identity::default() },
        patterns: vec![Pattern::PreShared],
        steered: Some(Steered { number, id_key: ID_KEY.into() }),
        ..Settings::default()
    };
    DtpListener::bind("127.0.0.1:0".parse().unwrap(), &settings).unwrap()
}

#[test]
fn servers_put_their_number_into_their_ids() {
    let servers = NUMBERS.map(listener);
    let addresses: [SocketAddr; 2] = [servers[0].local_addr(), servers[1].local_addr()];
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in [&front, &back] {
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    }
    let at = front.local_addr().unwrap();
    let client = Mutex::new(at);
    let (stop, by_number) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let steerer = Steerer::new(&ID_KEY);
            let mut buffer = [0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                let Ok((octets, from)) = front.recv_from(&mut buffer) else { continue };
                *client.lock().unwrap() = from;
                let Ok(steering) = steerer.steer(&buffer[..octets]) else { continue };
                let Some(server) = steering.server_of(&NUMBERS) else { continue };
                if matches!(steering, Steering::Server(_)) {
                    by_number.fetch_add(1, Ordering::Relaxed);
                }
                back.send_to(&buffer[..octets], addresses[server]).unwrap();
            }
        });
        scope.spawn(|| {
            let mut buffer = [0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                let Ok((octets, _)) = back.recv_from(&mut buffer) else { continue };
                front.send_to(&buffer[..octets], *client.lock().unwrap()).unwrap();
            }
        });
        for server in &servers {
            scope.spawn(|| {
                while let Ok((stream, _)) = server.accept() {
                    let mut got = Vec::new();
                    if (&stream).read_to_end(&mut got).is_ok() {
                        let _ = (&stream).write_all(&got);
                        let _ = stream.shutdown(Shutdown::Write);
                    }
                    if got == b"stop" {
                        break;
                    }
                }
            });
        }
        let connect = |at: SocketAddr, octets: &[u8]| {
            let settings = Settings { buffer: 1 << 16, ..Settings::default() };
            let connector = Connector::with_settings(Trust::PreShared(SHARED), &settings).unwrap();
            let stream = connector.connect(at).unwrap();
            (&stream).write_all(octets).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut got = Vec::new();
            (&stream).read_to_end(&mut got).unwrap();
            assert_eq!(got, octets);
        };
        for number in 0..4 {
            connect(at, &vec![number; 20_000]);
        }
        addresses.into_iter().for_each(|address| connect(address, b"stop"));
        stop.store(true, Ordering::Relaxed);
    });
    assert!(by_number.load(Ordering::Relaxed) > 4, "packets of flows were told by their number");
}
