//! Messages over the loopback: they keep their boundaries when both ends want it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{Identity, Pattern};
use heddle_dtp::{Connector, DtpListener, DtpStream, Settings, Trust, asynchronous};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

const SHARED: [u8; 32] = [7; 32];

fn pair(client: bool, server: bool) -> (DtpListener, DtpStream, DtpStream) {
    let settings = |boundaries| Settings { buffer: 1 << 16, boundaries, ..Settings::default() };
    let of_server = Settings {
        identity: Identity { pre_shared: Some(SHARED), ..Identity::default() },
        patterns: vec![Pattern::PreShared],
        ..settings(server)
    };
    let listener = DtpListener::bind("127.0.0.1:0".parse().unwrap(), &of_server).unwrap();
    let connector = Connector::with_settings(Trust::PreShared(SHARED), &settings(client)).unwrap();
    let client = connector.connect(listener.local_addr()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (listener, client, server)
}

#[test]
fn messages_come_as_they_were_sent() {
    let (_listener, client, server) = pair(true, true);
    assert!(client.keeps_boundaries() && server.keeps_boundaries());
    let longest = client.longest_message().unwrap();
    let sizes: Vec<usize> =
        (0..600).map(|number| number * 7919 % 20_000).chain([longest, 0, 1]).collect();
    let too_large = client.send_message(&vec![1; longest + 1]).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::InvalidInput);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for &size in &sizes {
                client.send_message(&vec![size as u8; size]).unwrap();
            }
            client.shutdown(Shutdown::Write).unwrap();
        });
        let mut buffer = vec![0; longest];
        for &size in &sizes {
            assert_eq!(server.recv_message(&mut buffer).unwrap(), Some(size));
            assert!(buffer[..size].iter().all(|&octet| octet == size as u8));
        }
        assert_eq!(server.recv_message(&mut buffer).unwrap(), None);
        assert_eq!(server.recv_message(&mut buffer).unwrap(), None);
    });
    server.send_message(b"an answer").unwrap();
    let small = client.recv_message(&mut [0; 4]).unwrap_err();
    assert_eq!(small.kind(), ErrorKind::InvalidInput);
    assert_eq!(client.next_message(), Some(9));
    assert_eq!(client.recv_message(&mut [0; 9]).unwrap(), Some(9));
    (&server).write_all(&[200, 1, 2]).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    let cut = client.recv_message(&mut [0; 9]).unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn one_end_alone_keeps_no_boundaries() {
    for (of_client, of_server) in [(true, false), (false, true)] {
        let (_listener, client, server) = pair(of_client, of_server);
        assert!(!client.keeps_boundaries() && !server.keeps_boundaries());
        assert_eq!(client.send_message(b"message").unwrap_err().kind(), ErrorKind::Unsupported);
        let refused = server.recv_message(&mut [0; 10]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        (&client).write_all(b"octets").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        (&server).read_to_end(&mut got).unwrap();
        assert_eq!(got, b"octets");
    }
}

#[tokio::test]
async fn messages_go_without_blocking() {
    let (_listener, client, server) = pair(true, true);
    let (client, server) =
        (asynchronous::DtpStream::new(client), asynchronous::DtpStream::new(server));
    let sending = async {
        for number in 0..200u8 {
            client.send_message(&vec![number; usize::from(number) * 50]).await.unwrap();
        }
        client.get_ref().shutdown(Shutdown::Write).unwrap();
    };
    let taking = async {
        let mut buffer = [0; 10_000];
        for number in 0..200u8 {
            let got = server.recv_message(&mut buffer).await.unwrap();
            assert_eq!(got, Some(usize::from(number) * 50));
        }
        assert_eq!(server.recv_message(&mut buffer).await.unwrap(), None);
    };
    tokio::join!(sending, taking);
}
