//! Streams over the loopback: the shapes of TCP's, blocking and asynchronous, and files that go on where they stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use heddle_core::dtp::modern::{Identity, Pattern, public_key};
use heddle_dtp::{
    Congestion, Connector, DtpListener, DtpStream, Settings, Trust, asynchronous, files,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SERVER: [u8; 32] = [5; 32];
const CLIENT: [u8; 32] = [6; 32];
const SHARED: [u8; 32] = [7; 32];

fn settings() -> Settings {
    Settings { buffer: 1 << 20, flows: 16, actives: 4, ..Settings::default() }
}

fn listen(patterns: &[Pattern]) -> DtpListener {
    let settings = Settings {
        identity: Identity { private: Some(SERVER), server: None, pre_shared: Some(SHARED) },
        patterns: patterns.to_vec(),
        authorized: vec![public_key(&CLIENT)],
        ..settings()
    };
    DtpListener::bind("127.0.0.1:0".parse().unwrap(), &settings).unwrap()
}

fn connector(trust: Trust) -> Connector {
    Connector::with_settings(trust, &settings()).unwrap()
}

fn pair(listener: &DtpListener, connector: &Connector) -> (DtpStream, DtpStream) {
    let client = connector.connect(listener.local_addr()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

fn text(octets: usize) -> Vec<u8> {
    (0..octets as u64).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn megabytes_go_both_ways_at_once() {
    for congestion in [Congestion::Cubic, Congestion::Bbr] {
        let listener = listen(&[Pattern::KnownServer]);
        let trust = Trust::Key(public_key(&SERVER));
        let connector =
            Connector::with_settings(trust, &Settings { congestion, ..settings() }).unwrap();
        let (client, server) = pair(&listener, &connector);
        let (up, down) = (text(8_000_000), text(5_000_001));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (&client).write_all(&up).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(|| {
                (&server).write_all(&down).unwrap();
                server.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(|| {
                let mut got = Vec::new();
                (&server).read_to_end(&mut got).unwrap();
                assert!(got == up, "{} octets up", got.len());
            });
            let mut got = Vec::new();
            (&client).read_to_end(&mut got).unwrap();
            assert!(got == down, "{} octets down", got.len());
        });
        // A direction that is at its end takes no more.
        assert_eq!((&client).write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}

#[test]
fn every_way_to_know_each_other() {
    let all = [
        Pattern::KnownServer,
        Pattern::KnownServerClientKey,
        Pattern::UnknownServer,
        Pattern::PreShared,
    ];
    let listener = listen(&all);
    let known = Trust::Key(public_key(&SERVER));
    let asked = Trust::Ask(Arc::new(|key| key == public_key(&SERVER)));
    let mut with_key = connector(known.clone());
    with_key.private = Some(CLIENT);
    for connector in
        [connector(known.clone()), with_key, connector(asked), connector(Trust::PreShared(SHARED))]
    {
        let (mut client, mut server) = pair(&listener, &connector);
        client.write_all(b"hello").unwrap();
        let mut got = [0; 5];
        server.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
    }
    let refused = connector(Trust::Ask(Arc::new(|_| false)));
    assert_eq!(
        refused.connect(listener.local_addr()).err().unwrap().kind(),
        ErrorKind::PermissionDenied
    );
}

#[test]
fn reads_time_out_and_a_drop_is_an_end() {
    let listener = listen(&[Pattern::PreShared]);
    let connector = connector(Trust::PreShared(SHARED));
    let (client, mut server) = pair(&listener, &connector);
    client.set_read_timeout(Some(Duration::from_millis(50)));
    assert_eq!((&client).read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::TimedOut);
    (&client).write_all(b"bye").unwrap();
    drop(client);
    let mut got = Vec::new();
    // What was written comes, then the end.
    server.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"bye");
    let end = Instant::now() + Duration::from_secs(10);
    drop(server);
    while !connector.endpoint().flows().is_empty() || !listener.endpoint().flows().is_empty() {
        assert!(
            Instant::now() < end,
            "{:?} {:?}",
            connector.endpoint().flows(),
            listener.endpoint().flows()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_rival_address_wins_where_the_first_does_not_answer() {
    let listener = listen(&[Pattern::PreShared]);
    let connector = connector(Trust::PreShared(SHARED));
    // Nobody listens there.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addresses: [SocketAddr; 2] = [silent.local_addr().unwrap(), listener.local_addr()];
    let client = connector.connect(&addresses[..]).unwrap();
    assert_eq!(client.peer_addr().unwrap(), listener.local_addr());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_asynchronously() {
    let listener = asynchronous::DtpListener::new(listen(&[Pattern::PreShared]));
    let blocking = listen(&[Pattern::PreShared]);
    let address = blocking.local_addr();
    drop(listener);
    let listener = asynchronous::DtpListener::new(blocking);
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        stream.write_all(&got).await.unwrap();
        stream.shutdown().await.unwrap();
        // Held until the client has read all.
        let _ = stream.read(&mut [0; 1]).await;
        got.len()
    });
    let connector = connector(Trust::PreShared(SHARED));
    let mut client = asynchronous::DtpStream::connect(&connector, address).await.unwrap();
    let sent = text(700_000);
    client.write_all(&sent).await.unwrap();
    client.shutdown().await.unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).await.unwrap();
    assert!(got == sent);
    assert_eq!(server.await.unwrap(), sent.len());
}

fn serve(listener: &DtpListener, root: &Path, count: usize) {
    for _ in 0..count {
        let (stream, _) = listener.accept().unwrap();
        let root = root.to_owned();
        std::thread::spawn(move || files::serve(&stream, &root, true));
    }
}

#[test]
fn files_go_on_where_they_stopped() {
    let listener = listen(&[Pattern::PreShared]);
    let connector = connector(Trust::PreShared(SHARED));
    let (root, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = text(3_000_000);
    std::fs::write(root.path().join("a"), &data).unwrap();
    let (root_path, address) = (root.path().to_owned(), listener.local_addr());
    std::thread::spawn(move || serve(&listener, &root_path, 6));
    let connect = || connector.connect(address).unwrap();

    // A part of it is there already; only the rest is fetched.
    let target = here.path().join("a");
    std::fs::write(here.path().join("a.part"), &data[..1_000_000]).unwrap();
    let mut least = u64::MAX;
    let got = files::get(&connect(), "a", &target, None, &mut |progress| {
        if progress.total > 0 {
            least = least.min(progress.done);
        }
    });
    assert_eq!(got.unwrap(), 3_000_000);
    assert!(least > 1_000_000);
    assert!(std::fs::read(&target).unwrap() == data);
    assert!(!here.path().join("a.part").exists());

    // A deadline leaves what has come.
    let past = Some(Instant::now());
    let error = files::get(&connect(), "a", &here.path().join("b"), past, &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let there = std::fs::metadata(here.path().join("b.part")).map_or(0, |data| data.len());
    let got = files::get(&connect(), "a", &here.path().join("b"), None, &mut |_| ()).unwrap();
    assert_eq!(got, 3_000_000, "{there} were there");
    assert!(std::fs::read(here.path().join("b")).unwrap() == data);

    // And the other way, on top of what is there.
    std::fs::write(root.path().join("c.part"), &data[..500_000]).unwrap();
    files::put(&connect(), &target, "c", None, &mut |_| ()).unwrap();
    assert!(std::fs::read(root.path().join("c")).unwrap() == data);

    let error =
        files::get(&connect(), "nothing", &here.path().join("n"), None, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("the server says"), "{error}");
    assert!(!here.path().join("n.part").exists());
    let error =
        files::get(&connect(), "../a", &here.path().join("n"), None, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("relative"), "{error}");
}
