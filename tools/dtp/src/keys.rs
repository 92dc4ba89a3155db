//! The files that ends know each other by.
//!
//! A private key is a file of one line, 64 hexadecimal digits, that only its owner may read; the public key stands beside it with `.pub`.
//! Known servers are lines of `host:port key`, authorized clients lines of `key`, each with an optional comment behind.

use crate::endpoint::random;
use heddle_core::dtp::modern::public_key;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A key of 32 octets.
pub type Key = [u8; 32];

fn wrong(path: &Path, what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

/// The system's error, with the file that it is about.
fn wrong_as(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn parse(text: &str) -> Option<Key> {
    hex::decode(text.trim()).ok()?.try_into().ok()
}

/// A key from its 64 hexadecimal digits.
///
/// # Errors
/// [`ErrorKind::InvalidInput`].
pub fn from_text(text: &str) -> io::Result<Key> {
    parse(text)
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "a key is 64 hexadecimal digits"))
}

/// The public key of a private one.
pub fn public(private: &Key) -> Key {
    public_key(private)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes a private key in a new file, and its public key beside it. Gives the public key.
///
/// # Errors
/// Those of files; one that is there is not written over.
pub fn generate(path: &Path) -> io::Result<Key> {
    let private = random()?;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", hex::encode(private))?;
    file.sync_all()?;
    let public = public_key(&private);
    std::fs::write(with_suffix(path, ".pub"), format!("{}\n", hex::encode(public)))?;
    Ok(public)
}

/// Reads a private key.
///
/// # Errors
/// Those of files; [`ErrorKind::InvalidData`] when it is no key, [`ErrorKind::PermissionDenied`] when others may read it.
pub fn read_private(path: &Path) -> io::Result<Key> {
    let about = |error: io::Error| wrong_as(path, &error);
    let mode = std::fs::metadata(path).map_err(about)?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = format!("{}: others may read this private key (chmod 600)", path.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, message));
    }
    parse(&std::fs::read_to_string(path).map_err(about)?)
        .ok_or_else(|| wrong(path, "no key of 64 hexadecimal digits"))
}

/// Reads the keys of the clients that are let in.
///
/// # Errors
/// Those of files; [`ErrorKind::InvalidData`] with the number of a line that is wrong.
pub fn read_authorized(path: &Path) -> io::Result<Vec<Key>> {
    let text = std::fs::read_to_string(path).map_err(|error| wrong_as(path, &error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| is_entry(line));
    lines
        .map(|(number, line)| {
            let key = line.split_whitespace().next().and_then(parse);
            key.ok_or_else(|| wrong(path, &format!("line {}: no key", number + 1)))
        })
        .collect()
}

fn is_entry(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// The key of a server in a file of known servers; a file that is not there knows none.
///
/// # Errors
/// Those of files; [`ErrorKind::InvalidData`] with the number of a line that is wrong.
pub fn known_server(path: &Path, server: &str) -> io::Result<Option<Key>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| wrong_as(path, &error))?,
    };
    for (number, line) in text.lines().enumerate().filter(|(_, line)| is_entry(line)) {
        let mut words = line.split_whitespace();
        if words.next() == Some(server) {
            let key = words.next().and_then(parse);
            return key
                .map(Some)
                .ok_or_else(|| wrong(path, &format!("line {}: no key", number + 1)));
        }
    }
    Ok(None)
}

/// Adds a server to a file of known ones.
///
/// # Errors
/// Those of files.
pub fn remember_server(path: &Path, server: &str, key: &Key) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    writeln!(file, "{server} {}", hex::encode(key))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_from_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.key");
        let public = generate(&path).unwrap();
        assert_eq!(public_key(&read_private(&path).unwrap()), public);
        assert_eq!(generate(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let text = std::fs::read_to_string(directory.path().join("server.key.pub")).unwrap();
        assert_eq!(from_text(&text).unwrap(), public);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read_private(&path).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn servers_and_clients_are_known_by_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deeper/known");
        assert_eq!(known_server(&path, "a:1").unwrap(), None);
        remember_server(&path, "a:1", &[1; 32]).unwrap();
        remember_server(&path, "b:1", &[2; 32]).unwrap();
        assert_eq!(known_server(&path, "b:1").unwrap(), Some([2; 32]));
        assert_eq!(known_server(&path, "c:1").unwrap(), None);
        std::fs::write(&path, "# comment\n\nb:1 12345\n").unwrap();
        assert!(known_server(&path, "b:1").unwrap_err().to_string().contains("line 3"));
        std::fs::write(&path, format!("{} me\n{}\n", "07".repeat(32), "08".repeat(32))).unwrap();
        assert_eq!(read_authorized(&path).unwrap(), [[7; 32], [8; 32]]);
    }
}
