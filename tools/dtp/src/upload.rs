//! A file that a client sends, until it is whole.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::files::sha256;

/// Who writes to each file. A client that was cut off comes back while its earlier transfer still waits for it, perhaps for
/// days, so the latest one has the file.
static WRITERS: Mutex<BTreeMap<PathBuf, Arc<Mutex<bool>>>> = Mutex::new(BTreeMap::new());

/// One client's writing to a file; another's that begins later ends it.
pub struct Upload {
    part: PathBuf,
    file: File,
    /// Octets that were there when it began.
    pub offset: u64,
    /// Whether the file is still this one's. Held while something is done to it.
    is_ours: Arc<Mutex<bool>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upload {
    /// Goes on with `part`, which will have `size` octets, or begins it anew if it has more.
    ///
    /// # Errors
    /// Those of files.
    #[cfg(test)]
    pub fn begin(part: &Path, size: u64) -> io::Result<Self> {
        Self::resume(part, size, None)
    }

    /// The same, but goes on behind the first `known` octets of it, if that is said: what comes next follows there.
    ///
    /// # Errors
    /// Those of files; [`ErrorKind::NotFound`] when there are fewer.
    pub fn resume(part: &Path, size: u64, known: Option<u64>) -> io::Result<Self> {
        let is_ours = Arc::new(Mutex::new(true));
        let earlier = lock(&WRITERS).insert(part.to_owned(), Arc::clone(&is_ours));
        if let Some(earlier) = earlier {
            *lock(&earlier) = false;
        }
        let open = || {
            let file = OpenOptions::new().read(true).append(true).create(true).open(part)?;
            let there = file.metadata()?.len();
            if known.is_some_and(|known| known > there) {
                let what = "what was there of the file is gone";
                return Err(io::Error::new(ErrorKind::NotFound, what));
            }
            let offset = known.unwrap_or(if there > size { 0 } else { there });
            if offset < there {
                file.set_len(offset)?;
            }
            Ok((file, offset))
        };
        match open() {
            Ok((file, offset)) => Ok(Self { part: part.to_owned(), file, offset, is_ours }),
            Err(error) => {
                forget(part, &is_ours);
                Err(error)
            }
        }
    }

    /// The file, to sync it.
    ///
    /// # Errors
    /// Those of files.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Puts the file in its place; gives its SHA-256.
    ///
    /// # Errors
    /// Those of files, and when another client sends it now.
    pub fn finish(self, path: &Path) -> io::Result<String> {
        let is_ours = lock(&self.is_ours);
        may_write(*is_ours)?;
        self.file.sync_all()?;
        let digest = sha256(&self.part)?;
        fs::rename(&self.part, path)?;
        Ok(digest)
    }
}

impl Write for Upload {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let is_ours = lock(&self.is_ours);
        may_write(*is_ours)?;
        self.file.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // What came is kept for the next time.
        let _ = self.file.sync_all();
        forget(&self.part, &self.is_ours);
    }
}

fn may_write(is_ours: bool) -> io::Result<()> {
    if is_ours { Ok(()) } else { Err(io::Error::other("another client sends this file now")) }
}

fn forget(part: &Path, writer: &Arc<Mutex<bool>>) {
    let mut writers = lock(&WRITERS);
    if writers.get(part).is_some_and(|other| Arc::ptr_eq(other, writer)) {
        writers.remove(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_two_clients_has_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (path, part) = (directory.path().join("a"), directory.path().join("a.part"));
        fs::write(&path, "old").unwrap();
        let mut first = Upload::begin(&part, 8).unwrap();
        first.write_all(b"half").unwrap();
        let mut second = Upload::begin(&part, 8).unwrap();
        assert_eq!(second.offset, 4);
        assert!(first.write_all(b"1111").is_err() && first.finish(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        second.write_all(b"2222").unwrap();
        second.finish(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"half2222");
        assert!(!lock(&WRITERS).contains_key(&part));
    }
}
