//! Tickets on a disk: what an endpoint needs to go on with its flows after `kill -9` or a power cut.
//!
//! A directory that only its owner may enter holds
//!
//! | file | what it is |
//! |---|---|
//! | `lock` | locked by the process that uses the directory |
//! | `disk.key` | the key that seals the others, 32 octets, made on first use |
//! | `endpoint` | sealed: the key of the connection ids, 32 octets, and how often an endpoint has begun here, 4 |
//! | `flow-SLOT-GENERATION` | sealed: the ticket of a flow and the application's note on it |
//!
//! Sealed is `"HEDDTKT1" || nonce 24 || XChaCha20-Poly1305(text) || tag 16` with a random nonce and magic and file name as associated data, so that neither a changed file nor
//! one in another's place opens. Each file is written anew beside the old one, synced, renamed, and the directory synced: there is always the old one or the new one. What cannot be read is put
//! aside with `.bad` behind its name and told in the log; the flow is lost then, nothing else.

use crate::endpoint::random;
use crate::keys::Key;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use heddle_core::dtp::modern::{FlowId, TICKET_OCTETS, Ticket};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const MAGIC: &[u8; 8] = b"HEDDTKT1";
const NONCE_OCTETS: usize = 24;
const TAG_OCTETS: usize = 16;

/// Octets of the longest note.
pub const MAX_NOTE_OCTETS: usize = 16 << 10;

const LOCK: &str = "lock";
const DISK_KEY: &str = "disk.key";
const ENDPOINT: &str = "endpoint";
const FLOW: &str = "flow-";
const NEW: &str = ".new";
const BAD: &str = ".bad";

/// The directory, which is this process's until it is dropped.
pub(crate) struct Store {
    directory: PathBuf,
    key: Zeroizing<Key>,
    _lock: File,
}

/// What an endpoint has in its ids.
#[derive(Clone)]
pub(crate) struct Ids {
    pub key: Zeroizing<Key>,
    pub boots: u32,
}

impl Ids {
    /// Those of an endpoint that begins for the first time.
    pub fn new() -> io::Result<Self> {
        Ok(Self { key: Zeroizing::new(random()?), boots: 0 })
    }
}

/// A ticket with the application's note.
pub(crate) struct Saved {
    pub ticket: Ticket,
    pub note: Vec<u8>,
}

fn name_of(flow: FlowId) -> String {
    format!("{FLOW}{}-{}", flow.slot(), flow.generation())
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Store {
    /// Opens the directory, which is made if it is not there.
    ///
    /// # Errors
    /// Those of files; [`ErrorKind::PermissionDenied`] when others may enter the directory, [`ErrorKind::ResourceBusy`] when another process uses it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let open = || {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            if directory.metadata()?.permissions().mode() & 0o077 != 0 {
                let what = "others may enter the directory of tickets (chmod 700)";
                return Err(io::Error::new(ErrorKind::PermissionDenied, what));
            }
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            let lock = options.open(directory.join(LOCK))?;
            match lock.try_lock() {
                Ok(()) => Ok(lock),
                Err(TryLockError::WouldBlock) => Err(io::Error::new(
                    ErrorKind::ResourceBusy,
                    "another process goes on with these flows",
                )),
                Err(TryLockError::Error(error)) => Err(error),
            }
        };
        let lock = open().map_err(|error| at(directory, error))?;
        let mut store =
            Self { directory: directory.to_owned(), key: Zeroizing::new([0; 32]), _lock: lock };
        store.clean()?;
        let path = directory.join(DISK_KEY);
        let key = match fs::read(&path) {
            Ok(octets) => match octets.try_into() {
                Ok(key) => key,
                Err(_) => {
                    store.put_aside(DISK_KEY, "no key");
                    store.new_key()?
                }
            },
            Err(error) if error.kind() == ErrorKind::NotFound => store.new_key()?,
            Err(error) => return Err(at(&path, error)),
        };
        store.key = Zeroizing::new(key);
        Ok(store)
    }

    fn new_key(&self) -> io::Result<Key> {
        let key = random()?;
        self.write(DISK_KEY, &key)?;
        Ok(key)
    }

    /// What a crash has left half done.
    fn clean(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.as_os_str().as_encoded_bytes().ends_with(NEW.as_bytes()) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn put_aside(&self, name: &str, why: &str) {
        let path = self.directory.join(name);
        tracing::warn!(path = %path.display(), why, "put aside");
        if let Err(error) = fs::rename(&path, self.directory.join(format!("{name}{BAD}"))) {
            tracing::warn!(path = %path.display(), %error, "cannot be put aside");
        }
    }

    /// Writes a file so that a crash leaves the old one or the new one.
    fn write(&self, name: &str, octets: &[u8]) -> io::Result<()> {
        let (path, new) = (self.directory.join(name), self.directory.join(format!("{name}{NEW}")));
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(octets)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        write().map_err(|error| at(&path, error))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&(*self.key).into())
    }

    fn seal(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let nonce: [u8; NONCE_OCTETS] = random()?.first_chunk().copied().unwrap_or_default();
        let mut sealed = [&MAGIC[..], &nonce, text].concat();
        let place = sealed.get_mut(MAGIC.len() + NONCE_OCTETS..).unwrap_or(&mut []);
        let tag = self
            .cipher()
            .encrypt_inout_detached(&XNonce::from(nonce), &context(name), place.into())
            .map_err(|_| io::Error::other("a ticket that is too long"))?;
        sealed.extend_from_slice(&tag);
        self.write(name, &sealed)
    }

    fn unseal(&self, name: &str) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        let path = self.directory.join(name);
        let mut octets = Vec::new();
        let limit = (MAX_NOTE_OCTETS + 4096) as u64;
        File::open(&path)?
            .take(limit)
            .read_to_end(&mut octets)
            .map_err(|error| at(&path, error))?;
        let opened = (|| {
            let rest = octets.strip_prefix(MAGIC)?;
            let (nonce, rest) = rest.split_first_chunk::<NONCE_OCTETS>()?;
            let (text, tag) = rest.split_last_chunk::<TAG_OCTETS>()?;
            let mut text = Zeroizing::new(text.to_vec());
            let place = text.as_mut_slice();
            self.cipher()
                .decrypt_inout_detached(
                    &XNonce::from(*nonce),
                    &context(name),
                    place.into(),
                    &Tag::from(*tag),
                )
                .ok()?;
            Some(text)
        })();
        if opened.is_none() {
            self.put_aside(name, "it was not sealed with this key, or has been changed");
        }
        Ok(opened)
    }

    /// The endpoint's ids, counted up: this is written before it is given.
    ///
    /// # Errors
    /// Those of files.
    pub fn begin(&self, fresh: &Ids) -> io::Result<Ids> {
        let known = match self.unseal(ENDPOINT) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            other => other?,
        };
        let known = known.as_deref().and_then(|text| {
            let (key, boots) = text.split_first_chunk::<32>()?;
            let boots = u32::from_be_bytes(boots.try_into().ok()?);
            Some(Ids { key: Zeroizing::new(*key), boots: boots.wrapping_add(1) })
        });
        let ids = known.unwrap_or_else(|| fresh.clone());
        let text = Zeroizing::new([&ids.key[..], &ids.boots.to_be_bytes()].concat());
        self.seal(ENDPOINT, &text)?;
        Ok(ids)
    }

    /// The tickets that are there, by slot. One that is of no use is put aside.
    ///
    /// # Errors
    /// Those of the directory.
    pub fn tickets(&self) -> io::Result<Vec<Saved>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().filter(|name| is_ticket(name)) else { continue };
            let text = match self.unseal(name) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(error) => {
                    self.put_aside(name, &error.to_string());
                    continue;
                }
            };
            let (ticket, note) = text.split_at_checked(TICKET_OCTETS).unwrap_or((&[], &[]));
            match Ticket::from_octets(ticket) {
                Ok(ticket) if name_of(ticket.flow()) == name => {
                    all.push(Saved { ticket, note: note.to_vec() });
                }
                _ => self.put_aside(name, "no ticket of this version"),
            }
        }
        all.sort_by_key(|saved| saved.ticket.flow().slot());
        Ok(all)
    }

    /// Writes a ticket in the place of the flow's last one.
    ///
    /// # Errors
    /// Those of files.
    pub fn save(&self, ticket: &Ticket, note: &[u8]) -> io::Result<()> {
        if note.len() > MAX_NOTE_OCTETS {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a note that is too long"));
        }
        let octets = Zeroizing::new(ticket.to_octets());
        let text = Zeroizing::new([&octets[..], note].concat());
        self.seal(&name_of(ticket.flow()), &text)
    }

    /// The flow is gone.
    pub fn remove(&self, flow: FlowId) {
        let path = self.directory.join(name_of(flow));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a ticket of no more use");
            }
            _ => {}
        }
    }

    /// The ticket cannot serve.
    pub fn refuse(&self, flow: FlowId, why: &str) {
        self.put_aside(&name_of(flow), why);
    }
}

/// Removes a directory of tickets that nobody needs any more. What this module has not put there stays, and so does what it has put aside.
pub(crate) fn remove_directory(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ours =
        |name: &String| is_ticket(name) || [ENDPOINT, DISK_KEY, LOCK].contains(&name.as_str());
    for name in names.filter(ours) {
        // Whatever is left makes the directory stay.
        let _ = fs::remove_file(directory.join(name));
    }
    let _ = fs::remove_dir(directory);
}

fn is_ticket(name: &str) -> bool {
    name.starts_with(FLOW) && Path::new(name).extension() != Some(OsStr::new("bad"))
}

fn context(name: &str) -> Vec<u8> {
    [&MAGIC[..], name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The octets that the core's own tests take for a ticket, of that flow.
    fn ticket(slot: u32, restarts: u32) -> Ticket {
        let mut octets = [0; TICKET_OCTETS];
        octets[..4].copy_from_slice(&[1, 1, 1, 1]);
        octets[4..8].copy_from_slice(&slot.to_be_bytes());
        octets[16..20].copy_from_slice(&1452u32.to_be_bytes());
        octets[20..24].copy_from_slice(&restarts.to_be_bytes());
        Ticket::from_octets(&octets).unwrap()
    }

    fn restarts(store: &Store) -> Vec<(u32, u32, String)> {
        let text = |saved: &Saved| String::from_utf8_lossy(&saved.note).into_owned();
        let all = store.tickets().unwrap();
        all.iter().map(|s| (s.ticket.flow().slot(), s.ticket.restarts(), text(s))).collect()
    }

    #[test]
    fn tickets_come_back_and_are_for_their_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deeper/state");
        let store = Store::open(&path).unwrap();
        let fresh = Ids::new().unwrap();
        assert_eq!(store.begin(&fresh).unwrap().boots, 0);
        store.save(&ticket(7, 0), b"note").unwrap();
        store.save(&ticket(2, 0), b"").unwrap();
        store.save(&ticket(7, 1), b"another").unwrap();
        assert_eq!(Store::open(&path).err().unwrap().kind(), ErrorKind::ResourceBusy);
        drop(store);
        let store = Store::open(&path).unwrap();
        let ids = store.begin(&Ids::new().unwrap()).unwrap();
        assert_eq!((&*ids.key, ids.boots), (&*fresh.key, 1));
        assert_eq!(restarts(&store), [(2, 0, String::new()), (7, 1, "another".into())]);
        for entry in fs::read_dir(&path).unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let flow = ticket(7, 1).flow();
        store.remove(flow);
        store.remove(flow);
        assert_eq!(restarts(&store).len(), 1);
        fs::write(path.join("else"), "").unwrap();
        drop(store);
        remove_directory(&path);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "what is not its own stays");
        fs::remove_file(path.join("else")).unwrap();
        remove_directory(&path);
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Store::open(&path).err().unwrap().kind(), ErrorKind::PermissionDenied);
    }

    /// Every state that a crash can leave, and every file that is not what it should be.
    #[test]
    fn a_crash_leaves_the_old_ticket_or_the_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let store = Store::open(&path).unwrap();
        store.save(&ticket(1, 0), b"old").unwrap();
        let name = path.join("flow-1-0");
        let old = fs::read(&name).unwrap();
        store.save(&ticket(1, 1), b"new").unwrap();
        let new = fs::read(&name).unwrap();
        assert!(old != new && !new.windows(3).any(|octets| octets == b"new"));
        drop(store);
        let aside = path.join("flow-1-0.new");
        for length in 0..=new.len() {
            // Before the rename: whatever part of the new file has got to the disk.
            fs::write(&name, &old).unwrap();
            fs::write(&aside, &new[..length]).unwrap();
            let store = Store::open(&path).unwrap();
            assert_eq!(restarts(&store), [(1, 0, "old".into())]);
            assert!(!aside.exists());
        }
        for length in 0..new.len() {
            // A disk that lies about what it has synced.
            fs::write(&name, &new[..length]).unwrap();
            let store = Store::open(&path).unwrap();
            assert_eq!(restarts(&store), []);
            assert_eq!(fs::read(path.join("flow-1-0.bad")).unwrap(), &new[..length]);
        }
        for place in 0..new.len() {
            let mut changed = new.clone();
            changed[place] ^= 1;
            fs::write(&name, changed).unwrap();
            assert_eq!(restarts(&Store::open(&path).unwrap()), []);
        }
        // Under another name, or sealed with another key.
        fs::write(path.join("flow-2-0"), &new).unwrap();
        assert_eq!(restarts(&Store::open(&path).unwrap()), []);
        fs::write(&name, &new).unwrap();
        fs::write(path.join("disk.key"), b"short").unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(restarts(&store), []);
        store.save(&ticket(1, 2), b"").unwrap();
        assert_eq!(restarts(&store).len(), 1, "and it goes on with a new key");
        store.refuse(ticket(1, 2).flow(), "test");
        assert_eq!(restarts(&store), []);
        assert!(store.save(&ticket(1, 2), &[0; MAX_NOTE_OCTETS + 1]).is_err());
    }
}
