//! TLS with certificates on both sides (OpenFlow 1.3.5, 6.3.3): each side shows one that the authority has signed.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of one side, in PEM form.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Its certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Certificates of the authority that signs those of the other side.
    pub authority: PathBuf,
}

/// Why TLS cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not there or is not in PEM form.
    #[error("cannot read {what} in {}: {source}", path.display())]
    File {
        /// What should be in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// The authority is of no use.
    #[error("the certificates in {} are no authority: {reason}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The host is no name that a certificate could have.
    #[error("no certificate can be for this host: {0}")]
    Name(#[from] InvalidDnsNameError),
    /// Certificate and key are of no use.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// What one side needs for its connections.
#[derive(Clone, Debug)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file is of no use, and why.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let chain = certificates("a certificate", &files.certificate)?;
        must_be_file("a private key", &files.key)?;
        let key = || {
            PrivateKeyDer::from_pem_file(&files.key)
                .map_err(|source| file_error("a private key", &files.key, source))
        };
        let authority_error =
            |reason: String| TlsError::Authority { path: files.authority.clone(), reason };
        let mut roots = RootCertStore::empty();
        for certificate in certificates("an authority's certificate", &files.authority)? {
            roots.add(certificate).map_err(|error| authority_error(error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| authority_error(error.to_string()))?;
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.clone(), key()?)?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key()?)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// The side that connects to this host, whose certificate must be for it.
    ///
    /// # Errors
    /// When no certificate could be for it.
    pub fn connecting(&self, host: &str) -> Result<ClientConnection, TlsError> {
        let name = ServerName::try_from(host.to_owned())?;
        Ok(ClientConnection::new(self.client.clone(), name)?)
    }

    /// The side that is connected to.
    ///
    /// # Errors
    /// When the library has none to give.
    pub fn accepting(&self) -> Result<ServerConnection, TlsError> {
        Ok(ServerConnection::new(self.server.clone())?)
    }
}

fn file_error(what: &'static str, path: &Path, source: rustls::pki_types::pem::Error) -> TlsError {
    TlsError::File { what, path: path.to_owned(), source }
}

/// A pipe or device might never end, and whoever waits for it cannot be told to stop.
fn must_be_file(what: &'static str, path: &Path) -> Result<(), TlsError> {
    let refused = |error| file_error(what, path, rustls::pki_types::pem::Error::Io(error));
    let data = std::fs::metadata(path).map_err(refused)?;
    if data.is_file() { Ok(()) } else { Err(refused(std::io::Error::other("it is no file"))) }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    must_be_file(what, path)?;
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    match read() {
        Ok(found) if found.is_empty() => {
            Err(file_error(what, path, rustls::pki_types::pem::Error::NoItemsFound))
        }
        found => found.map_err(|source| file_error(what, path, source)),
    }
}
