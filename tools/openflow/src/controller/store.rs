//! What outlives the controller, and where it is kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::name::Prefix;

/// The form of the state that this version writes.
const FORMAT: u32 = 1;

/// What a controller that starts again goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    format: u32,
    /// Counts the controller's starts: the generation of its roles and part of its flows' cookies.
    pub generation: u64,
    /// Announced routes, sorted.
    pub routes: Vec<StoredRoute>,
}

/// A route that an island has announced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StoredRoute {
    /// The island's name.
    pub island: String,
    /// The prefix.
    pub name: Prefix,
    /// The cost that it was announced with.
    pub cost: u64,
}

impl State {
    /// The state of these routes.
    pub fn new(generation: u64, mut routes: Vec<StoredRoute>) -> Self {
        routes.sort();
        Self { format: FORMAT, generation, routes }
    }
}

/// Keeps a controller's state. Several controllers that share one are several implementations away from one alone.
pub trait StateStore {
    /// What was saved last; nothing at the first start.
    ///
    /// # Errors
    /// When there is something that cannot be read.
    fn load(&mut self) -> Result<Option<State>, StoreError>;

    /// Saves; once this returns the state is there to stay, and whenever it is interrupted either this or the earlier state is.
    ///
    /// # Errors
    /// When it cannot be saved; the earlier state is still there.
    fn save(&mut self, state: &State) -> Result<(), StoreError>;
}

/// Why state could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was done, as it follows "cannot".
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path} is no state of a controller: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another process has it.
    #[error("{0} is in use by another controller")]
    InUse(PathBuf),
}

/// State in one file, which another file replaces as a whole at each change.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    new_path: PathBuf,
    /// Held as long as the store is there; the operating system lets go of it when the process ends, however it does.
    _lock: File,
}

impl FileStore {
    /// The store in `path`, with `path.lock` and `path.new` beside it.
    ///
    /// # Errors
    /// When another controller uses it or the directory cannot be written to.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let lock_path = beside(".lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(io_error("write", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::InUse(path.into())),
            Err(fs::TryLockError::Error(error)) => {
                return Err(io_error("lock", &lock_path)(error));
            }
        }
        Ok(Self { path: path.into(), new_path: beside(".new"), _lock: lock })
    }
}

impl StateStore for FileStore {
    fn load(&mut self) -> Result<Option<State>, StoreError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &self.path)(error)),
        };
        let unreadable = |reason| StoreError::Unreadable { path: self.path.clone(), reason };
        let state: State =
            serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        if state.format != FORMAT {
            return Err(unreadable(format!("format {} is not {FORMAT}", state.format)));
        }
        Ok(Some(state))
    }

    fn save(&mut self, state: &State) -> Result<(), StoreError> {
        let text = serde_json::to_vec(state).map_err(|error| StoreError::Unreadable {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        let write = || {
            let mut file = File::create(&self.new_path)?;
            file.write_all(&text)?;
            file.sync_all()
        };
        write().map_err(io_error("write", &self.new_path))?;
        fs::rename(&self.new_path, &self.path).map_err(io_error("replace", &self.path))?;
        // The new name is only there to stay once the directory is.
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new("."));
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(io_error("write", directory))
    }
}

/// State in memory: gone with the process.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(pub Option<State>);

impl StateStore for MemoryStore {
    fn load(&mut self) -> Result<Option<State>, StoreError> {
        Ok(self.0.clone())
    }

    fn save(&mut self, state: &State) -> Result<(), StoreError> {
        self.0 = Some(state.clone());
        Ok(())
    }
}

fn io_error<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io { doing, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(generation: u64) -> State {
        let route = |name: &str| StoredRoute {
            island: "tno".into(),
            name: name.parse().unwrap(),
            cost: generation,
        };
        State::new(generation, vec![route("/b"), route("/a")])
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let mut store = FileStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), None);
        store.save(&state(1)).unwrap();
        store.save(&state(2)).unwrap();
        assert_eq!(store.load().unwrap(), Some(state(2)));
        // Another controller may not have it at the same time, but afterwards.
        assert!(matches!(FileStore::open(&path), Err(StoreError::InUse(_))));
        drop(store);
        assert_eq!(FileStore::open(&path).unwrap().load().unwrap(), Some(state(2)));
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let mut store = FileStore::open(&path).unwrap();
        for text in ["", "{", "[]", r#"{"format":2,"generation":1,"routes":[]}"#] {
            fs::write(&path, text).unwrap();
            assert!(matches!(store.load(), Err(StoreError::Unreadable { .. })), "{text}");
        }
        // The remains of an interrupted save do not matter.
        store.save(&state(3)).unwrap();
        fs::write(directory.path().join("state.new"), "{\"form").unwrap();
        assert_eq!(store.load().unwrap(), Some(state(3)));
    }
}
