//! Links with delay, loss and a rate, by what the hosts at their ends see. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_testbed::link::{ADDRESSES, Link, Shape};
use heddle_testbed::namespace;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const A: std::net::Ipv4Addr = ADDRESSES[0];
const B: std::net::Ipv4Addr = ADDRESSES[1];

/// A socket at each end.
fn sockets(link: &Link) -> (UdpSocket, UdpSocket) {
    let bind = |address| move || Ok(UdpSocket::bind((address, 7000)).unwrap());
    let ends = (link.a().enter(bind(A)).unwrap(), link.b().enter(bind(B)).unwrap());
    ends.1.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    ends
}

/// Sends numbered datagrams, a few at a time, and gives the numbers of those that came.
fn send(from: &UdpSocket, to: &UdpSocket, count: u32, octets: usize) -> Vec<u32> {
    let mut came = Vec::new();
    let mut buffer = vec![0; 2000];
    let mut payload = vec![0; octets];
    for number in 0..count {
        payload[..4].copy_from_slice(&number.to_be_bytes());
        from.send_to(&payload, (B, 7000)).unwrap();
        if number % 16 == 15 || number + 1 == count {
            std::thread::sleep(Duration::from_millis(1));
            to.set_nonblocking(true).unwrap();
            while let Ok(octets) = to.recv(&mut buffer) {
                came.push(u32::from_be_bytes(buffer[..octets].first_chunk().copied().unwrap()));
            }
            to.set_nonblocking(false).unwrap();
        }
    }
    to.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    while to.recv(&mut buffer).is_ok() {
        came.push(u32::from_be_bytes(buffer.first_chunk().copied().unwrap()));
    }
    came
}

#[test]
fn frames_take_their_time() {
    let shape = Shape { delay: Duration::from_millis(40), ..Shape::default() };
    let link = Link::set_up("hdl-t-delay", &shape).unwrap();
    let (a, b) = sockets(&link);
    // The first one also waits for ARP.
    for round in 0..3 {
        let start = Instant::now();
        a.send_to(b"hello", (B, 7000)).unwrap();
        let (_, from) = b.recv_from(&mut [0; 8]).unwrap();
        b.send_to(b"hello", from).unwrap();
        a.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        a.recv(&mut [0; 8]).unwrap();
        let least = Duration::from_millis(if round == 0 { 160 } else { 80 });
        assert!(start.elapsed() >= least, "{round}: {:?}", start.elapsed());
    }
}

#[test]
fn the_part_that_was_asked_for_is_lost_and_the_rest_keeps_its_order() {
    let shape = Shape { loss: 0.1, seed: 7, ..Shape::default() };
    let link = Link::set_up("hdl-t-loss", &shape).unwrap();
    let (a, b) = sockets(&link);
    // ARP may be lost as well: until the first one comes.
    while b.recv(&mut [0; 8]).is_err() {
        a.send_to(b"hello", (B, 7000)).unwrap();
    }
    let before = link.counts().unwrap()[0];
    let came = send(&a, &b, 5000, 100);
    assert!(came.windows(2).all(|pair| pair[0] < pair[1]), "in order");
    let counts = link.counts().unwrap()[0];
    let lost = counts.lost - before.lost;
    // Six standard deviations about 500.
    assert!((370..=630).contains(&lost), "{lost}");
    assert!(came.len() as u64 + lost >= 4990, "{} came, {counts:?}", came.len());
}

#[test]
fn a_full_queue_takes_no_more_and_a_cut_lets_nothing_through() {
    let shape = Shape {
        delay: Duration::from_millis(1),
        rate_bits: Some(8_000_000),
        queue_octets: Some(64 << 10),
        ..Shape::default()
    };
    let link = Link::set_up("hdl-t-queue", &shape).unwrap();
    let (a, b) = sockets(&link);
    a.send_to(b"hello", (B, 7000)).unwrap();
    b.recv(&mut [0; 8]).unwrap();
    for _ in 0..400 {
        a.send_to(&[0; 1000], (B, 7000)).unwrap();
    }
    b.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut came = 0;
    while b.recv(&mut [0; 1000]).is_ok() {
        came += 1;
    }
    assert!((60..400).contains(&came), "{came}");
    assert!(link.counts().unwrap()[0].overflowed > 0);
    link.cut(true).unwrap();
    a.send_to(b"hello", (B, 7000)).unwrap();
    assert!(b.recv(&mut [0; 8]).is_err());
    link.cut(false).unwrap();
    a.send_to(b"hello", (B, 7000)).unwrap();
    b.recv(&mut [0; 8]).unwrap();
}

#[test]
fn a_rate_alone_is_the_kernels_and_an_address_can_change() {
    let shape = Shape { rate_bits: Some(100_000_000), ..Shape::default() };
    let link = Link::set_up("hdl-t-rate", &shape).unwrap();
    let (a, b) = sockets(&link);
    assert!(link.counts().is_none() && link.cut(true).is_err());
    link.down().unwrap();
    assert!(a.send_to(b"hello", (B, 7000)).is_err(), "its host knows");
    link.readdress("10.77.0.9".parse().unwrap()).unwrap();
    link.up().unwrap();
    let again = link.a().enter(|| Ok(UdpSocket::bind("10.77.0.9:0").unwrap())).unwrap();
    again.send_to(b"hello", (B, 7000)).unwrap();
    let (_, from) = b.recv_from(&mut [0; 8]).unwrap();
    assert_eq!(from.ip().to_string(), "10.77.0.9");
    let busy = Link::set_up("hdl-t-rate", &shape).unwrap_err().to_string();
    assert!(busy.contains("up already"), "{busy}");
    drop(link);
    assert!(namespace::with_prefix("hdl-t-rate").unwrap().is_empty(), "taken down");
}
