//! The controller with real sockets and real time: another island takes over, and nobody else's connection suffers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod peers;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use heddle_openflow::controller::{Config, Final, MemoryStore, run};
use peers::{Kind, Peer};

/// Long enough on any machine.
const LONG: Duration = Duration::from_secs(60);

/// The controller promises a second by its own clock; a busy machine may take some more.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(5);

/// A switch on a thread of its own, until its connection is closed.
struct Live {
    peer: Arc<Mutex<Peer>>,
    stream: TcpStream,
}

impl Live {
    fn connect(to: SocketAddr, datapath_id: u64) -> Self {
        let peer = Arc::new(Mutex::new(Peer::new(datapath_id, Kind::Ours)));
        let stream = TcpStream::connect(to).unwrap();
        let (shared, mut socket) = (Arc::clone(&peer), stream.try_clone().unwrap());
        thread::spawn(move || {
            let mut octets = [0; 4096];
            while let Ok(count @ 1..) = socket.read(&mut octets) {
                let answers = shared.lock().unwrap().take(&octets[..count]);
                if socket.write_all(&answers).is_err() {
                    return;
                }
            }
        });
        Self { peer, stream }
    }

    fn way(&self) -> Option<[u8; 4]> {
        self.peer.lock().unwrap().way("/video")
    }
}

fn until(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < limit, "it never came about that {what}");
        thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

#[test]
fn another_island_takes_over_when_a_switch_or_an_announcer_goes() {
    // A port that nobody uses just now.
    let announcements = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let islands: String = (1..=3)
        .map(|number| {
            format!(
                "[[island]]\nname = \"i{number}\"\ndatapath_id = \"{number}\"\nforwarder = \"127.0.0.{number}\"\n"
            )
        })
        .collect();
    let text = format!(
        "gateway = \"192.0.2.1\"\nlisten = [\"tcp:127.0.0.1:0\"]\nannouncements = \"{announcements}\"\n\
         hold_ms = 900\necho_ms = 2000\n{islands}"
    );
    let config = Config::parse(&text).unwrap();
    let (stop, show) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let (tell, told) = channel();
    let stopped = Arc::clone(&stop);
    let controller = thread::spawn(move || -> Final {
        let ready = |addresses: &[SocketAddr]| tell.send(addresses[0]).unwrap();
        run(config, &mut MemoryStore::default(), &stopped, &show, ready, |_| {}).unwrap()
    });
    let address = told.recv_timeout(LONG).unwrap();
    let first = Live::connect(address, 1);
    let second = Live::connect(address, 2);
    let third = Live::connect(address, 3);

    // Islands 1 and 3 say what they have, again and again, island 1 until it is told to be quiet.
    let (quiet, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let announcers: Vec<_> = [(1, 10), (3, 20)]
        .into_iter()
        .map(|(island, cost)| {
            let (quiet, over) = (Arc::clone(&quiet), Arc::clone(&over));
            thread::spawn(move || {
                let socket = UdpSocket::bind((format!("127.0.0.{island}"), 0)).unwrap();
                let text = format!(r#"[{{"name":"/video","cost":{cost}}}]"#);
                while !over.load(Ordering::Relaxed) {
                    if island == 3 || !quiet.load(Ordering::Relaxed) {
                        let _ = socket.send_to(text.as_bytes(), announcements);
                    }
                    thread::sleep(Duration::from_millis(100));
                }
            })
        })
        .collect();

    let by_first = |second: &Live| second.way() == Some([127, 0, 0, 1]);
    let by_third = |second: &Live| second.way() == Some([127, 0, 0, 3]);
    until(LONG, "the cheaper island serves", || by_first(&second));
    first.stream.shutdown(std::net::Shutdown::Both).unwrap();
    let took = until(LONG, "another takes over from a lost switch", || by_third(&second));
    assert!(took < TAKEN_OVER_WITHIN, "{took:?}");

    let first = Live::connect(address, 1);
    until(LONG, "the cheaper island is back", || by_first(&second));
    quiet.store(true, Ordering::Relaxed);
    let took = until(LONG, "another takes over from a silent island", || by_third(&second));
    assert!(took < TAKEN_OVER_WITHIN, "{took:?}");

    over.store(true, Ordering::Relaxed);
    announcers.into_iter().for_each(|announcer| announcer.join().unwrap());
    stop.store(true, Ordering::Relaxed);
    let end = controller.join().unwrap();
    assert_eq!(end.counters.connections, 4);
    assert_eq!(end.counters.connections_silent + end.counters.connections_broken, 0);
    assert_eq!(end.counters.names_bad, 0);
    drop((first, second, third));
}
