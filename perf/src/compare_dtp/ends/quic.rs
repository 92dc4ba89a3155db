//! quinn, on one thread as its own benchmark runs it.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::{ClientConfig, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{DONE, PERIOD, Pattern, REQUEST_OCTETS, Role, Task, ready};

/// The name in the server's certificate.
const NAME: &str = "server";

/// Octets that may be on their way, as ours has.
const WINDOW_OCTETS: u32 = 4 << 20;

pub fn run(bbr: bool, address: SocketAddr, role: Role) -> io::Result<Instant> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match role {
            Role::Server => serve(bbr, address).await,
            Role::Client(task) => ask(bbr, address, task).await,
        }
    })
}

/// Both ends make it from the same octets, so that the client knows the server's without being told.
fn certificate() -> io::Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let key = rcgen::KeyPair::try_from(KEY_PKCS8).map_err(io::Error::other)?;
    let parameters =
        rcgen::CertificateParams::new(vec![NAME.to_owned()]).map_err(io::Error::other)?;
    let certificate = parameters.self_signed(&key).map_err(io::Error::other)?;
    Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

/// An Ed25519 key (RFC 8410, 7): 32 octets of 5.
const KEY_PKCS8: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
    5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
];

fn transport(bbr: bool) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    if bbr {
        config.congestion_controller_factory(Arc::new(BbrConfig::default()));
    } else {
        config.congestion_controller_factory(Arc::new(CubicConfig::default()));
    }
    // It ends a connection after 30 s of silence unless it is told otherwise.
    config.max_idle_timeout(None);
    config.keep_alive_interval(Some(Duration::from_secs(1)));
    config.stream_receive_window(WINDOW_OCTETS.into());
    config.receive_window((2 * WINDOW_OCTETS).into());
    config.send_window((2 * WINDOW_OCTETS).into());
    Arc::new(config)
}

async fn serve(bbr: bool, address: SocketAddr) -> io::Result<Instant> {
    let (certificate, key) = certificate()?;
    let mut config =
        ServerConfig::with_single_cert(vec![certificate], key).map_err(io::Error::other)?;
    config.transport_config(transport(bbr));
    let endpoint = Endpoint::server(config, address)?;
    ready();
    let incoming = endpoint.accept().await.ok_or(io::ErrorKind::NotConnected)?;
    let connection = incoming.await?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    let mut request = [0; REQUEST_OCTETS];
    receive.read_exact(&mut request).await.map_err(io::Error::other)?;
    let task = Task::read(request);
    if task.download {
        send_all(&mut send, task.octets).await?;
        receive.read_exact(&mut [0]).await.map_err(io::Error::other)?;
    } else {
        receive_all(&mut receive, task.octets).await?;
        send.write_all(&[DONE]).await?;
    }
    let done = Instant::now();
    let _ = connection.closed().await;
    Ok(done)
}

async fn ask(bbr: bool, address: SocketAddr, task: Task) -> io::Result<Instant> {
    let (certificate, _) = certificate()?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).map_err(io::Error::other)?;
    let mut config =
        ClientConfig::with_root_certificates(Arc::new(roots)).map_err(io::Error::other)?;
    config.transport_config(transport(bbr));
    let mut endpoint = Endpoint::client((Ipv6Addr::UNSPECIFIED, 0).into())?;
    endpoint.set_default_client_config(config);
    let connecting = endpoint.connect(address, NAME).map_err(io::Error::other)?;
    let connection = connecting.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&task.write()).await?;
    if task.download {
        receive_all(&mut receive, task.octets).await?;
        send.write_all(&[DONE]).await?;
        send.finish().map_err(io::Error::other)?;
        // It has to arrive.
        let _ = send.stopped().await;
    } else {
        send_all(&mut send, task.octets).await?;
        receive.read_exact(&mut [0]).await.map_err(io::Error::other)?;
    }
    let done = Instant::now();
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(done)
}

async fn send_all(stream: &mut SendStream, octets: u64) -> io::Result<()> {
    let pattern = Pattern::new();
    let mut offset = 0;
    while offset < octets {
        offset += stream.write(pattern.at(offset, octets - offset)).await? as u64;
    }
    Ok(())
}

async fn receive_all(stream: &mut RecvStream, octets: u64) -> io::Result<()> {
    let pattern = Pattern::new();
    let mut buffer = vec![0; PERIOD];
    let mut offset = 0;
    while offset < octets {
        let count = stream.read(&mut buffer).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        pattern.check(offset, buffer.get(..count).unwrap_or(&[]))?;
        offset += count as u64;
    }
    Ok(())
}
