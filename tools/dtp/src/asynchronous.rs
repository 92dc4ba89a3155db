//! The same for tokio, or any executor: nothing here needs a runtime of its own.

use crate::{Connector, stream};
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream with the shape of `tokio::net::TcpStream`.
pub struct DtpStream(stream::DtpStream);

impl DtpStream {
    /// The stream of a blocking one.
    pub const fn new(stream: stream::DtpStream) -> Self {
        Self(stream)
    }

    /// Opens a stream. The handshake waits on a thread of its own, so that no executor has to.
    ///
    /// # Errors
    /// Those of [`Connector::connect`].
    pub async fn connect(connector: &Connector, address: SocketAddr) -> io::Result<Self> {
        let connector = connector.clone();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::Builder::new().name("dtp-connect".into()).spawn(move || {
            // Nobody may wait for it any more; the stream closes then.
            let _ = sender.send(connector.connect(address));
        })?;
        let stream =
            receiver.await.map_err(|_| io::Error::other("the handshake was given up"))??;
        Ok(Self(stream))
    }

    /// The blocking stream in it.
    pub const fn get_ref(&self) -> &stream::DtpStream {
        &self.0
    }
}

impl AsyncRead for DtpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let out = buffer.initialize_unfilled();
        match self.0.poll_read(context, out) {
            Poll::Ready(Ok(count)) => {
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncWrite for DtpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, octets)
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(Shutdown::Write))
    }
}

/// A listener with the shape of `tokio::net::TcpListener`.
#[derive(Clone)]
pub struct DtpListener(crate::DtpListener);

impl DtpListener {
    /// The listener of a blocking one.
    pub const fn new(listener: crate::DtpListener) -> Self {
        Self(listener)
    }

    /// Waits for a client.
    ///
    /// # Errors
    /// When the endpoint's thread has failed.
    pub async fn accept(&self) -> io::Result<(DtpStream, SocketAddr)> {
        let (stream, peer) = poll_fn(|context| self.0.poll_accept(context)).await?;
        Ok((DtpStream(stream), peer))
    }
}
