//! Files over streams: one request a stream, and whoever was cut off goes on where it stopped.
//!
//! | request line | answer |
//! |---|---|
//! | `GET offset name` | `OK size`, then the octets from `offset` on |
//! | `PUT size name` | `OK offset`: how much is there already; then the client sends the rest, and reads `DONE sha256` |
//!
//! An answer of `ERR reason` ends the stream. Names are relative, without `..`, and stay below the served directory whatever links stand there.

use crate::stream::DtpStream;
use crate::upload::Upload;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// Octets of the longest line.
const LINE_OCTETS: u64 = 4096;

/// Octets that are copied at a time.
const PIECE: usize = 256 << 10;

/// A client that asks for nothing is let go after this.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

/// A file that is not whole yet.
const PART: &str = ".part";

/// How a transfer stands.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Octets that are through.
    pub done: u64,
    /// Octets in all.
    pub total: u64,
    /// It waits for the network.
    pub waiting: bool,
}

fn refused(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text.to_owned())
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.by_ref().take(LINE_OCTETS).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::Error::new(ErrorKind::InvalidData, "a line that does not end"));
    }
    String::from_utf8(line)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "a line that is no text"))
}

/// The file of a name below `root`.
fn locate(root: &Path, name: &str) -> io::Result<PathBuf> {
    if name.ends_with(PART) {
        return Err(refused("names that end in .part are of files that are not whole yet"));
    }
    let name = Path::new(name);
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || name.as_os_str().is_empty() {
        return Err(refused("a name must be relative and plain"));
    }
    let path = root.join(name);
    stays_below(root, &path)?;
    Ok(path)
}

/// A link may lead out of the directory, also one to what is not there; the nearest part of a path that is there tells.
fn stays_below(root: &Path, path: &Path) -> io::Result<()> {
    let there = path
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())
        .ok_or_else(|| refused("no such file"))?;
    if !there.canonicalize()?.starts_with(root.canonicalize()?) {
        return Err(refused("the name leads out of the directory"));
    }
    Ok(())
}

/// To open what is no file, such as a pipe that nobody writes to, may take for ever.
fn must_be_file(path: &Path) -> io::Result<()> {
    if path.metadata()?.is_file() { Ok(()) } else { Err(refused("not a file")) }
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PART);
    name.into()
}

/// Answers one request; gives what it was.
///
/// # Errors
/// Those of the stream and of files. The client is told, if it can be.
pub fn serve(stream: &DtpStream, root: &Path, writable: bool) -> io::Result<String> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT));
    let mut reader = BufReader::with_capacity(PIECE, stream);
    let line = read_line(&mut reader)?;
    stream.set_read_timeout(None);
    let result = answer(stream, &mut reader, root, writable, &line);
    if let Err(error) = &result {
        let text = error.to_string().replace(['\n', '\r'], " ");
        // The peer may be gone; the error that is given matters more.
        let _ = writeln!(&mut &*stream, "ERR {text}");
        let _ = stream.shutdown(Shutdown::Write);
    }
    result.map(|()| line)
}

fn answer(
    mut stream: &DtpStream,
    reader: &mut impl Read,
    root: &Path,
    writable: bool,
    line: &str,
) -> io::Result<()> {
    let mut words = line.splitn(3, ' ');
    let (verb, number, name) = (words.next(), words.next(), words.next());
    let number: Option<u64> = number.and_then(|number| number.parse().ok());
    match (verb, number, name) {
        (Some("GET"), Some(offset), Some(name)) => {
            let path = locate(root, name)?;
            must_be_file(&path)?;
            let mut file = File::open(path)?;
            let data = file.metadata()?;
            if offset > data.len() {
                return Err(refused("the file is shorter than what is there of it"));
            }
            writeln!(stream, "OK {}", data.len())?;
            file.seek(SeekFrom::Start(offset))?;
            copy(&mut file.take(data.len() - offset), &mut stream, |_| Ok(()))?;
            stream.shutdown(Shutdown::Write)
        }
        (Some("PUT"), Some(size), Some(name)) if writable => {
            let path = locate(root, name)?;
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            let part = part_of(&path);
            stays_below(root, &part)?;
            for path in [&path, &part] {
                if path.exists() {
                    must_be_file(path)?;
                }
            }
            let mut upload = Upload::begin(&part, size)?;
            let offset = upload.offset;
            writeln!(stream, "OK {offset}")?;
            let got = copy(&mut reader.take(size - offset), &mut upload, |_| Ok(()))?;
            if offset + got != size {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the client ended early; what came is kept",
                ));
            }
            let digest = upload.finish(&path)?;
            writeln!(stream, "DONE {digest}")?;
            stream.shutdown(Shutdown::Write)
        }
        (Some("PUT"), Some(_), Some(_)) => Err(refused("this server takes no files")),
        _ => Err(refused("no request that is known")),
    }
}

/// The SHA-256 of a file in hexadecimal digits.
///
/// # Errors
/// Those of files.
pub fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; PIECE];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(digest.finalize())),
            count => digest.update(buffer.get(..count).unwrap_or(&[])),
        }
    }
}

fn copy(
    from: &mut impl Read,
    to: &mut impl Write,
    mut each: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut total = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                // A look around while nothing comes.
                each(total)?;
                continue;
            }
            other => other?,
        };
        let mut rest = buffer.get(..count).unwrap_or(&[]);
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or(&[]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::TimedOut) =>
                {
                    each(total)?;
                }
                Err(error) => return Err(error),
            }
        }
        total += count as u64;
        each(total)?;
    }
}

/// The number of an answer, which must begin with `word`.
fn number_after(word: &str, line: &str) -> io::Result<u64> {
    match line.split_once(' ') {
        Some((first, rest)) if first == word => rest
            .parse()
            .map_err(|_| io::Error::new(ErrorKind::InvalidData, "an answer that makes no sense")),
        Some(("ERR", reason)) => Err(io::Error::other(format!("the server says: {reason}"))),
        _ => Err(io::Error::new(ErrorKind::InvalidData, "an answer that makes no sense")),
    }
}

/// How long a wait for the network lasts before progress is told again.
const LOOK: Duration = Duration::from_millis(200);

fn past(deadline: Option<Instant>) -> io::Result<()> {
    match deadline {
        Some(deadline) if Instant::now() >= deadline => Err(io::Error::new(
            ErrorKind::TimedOut,
            "the deadline has passed; what is there is kept",
        )),
        _ => Ok(()),
    }
}

/// Reads a line from the server, telling that it is waited for.
fn answer_line(
    stream: &DtpStream,
    reader: &mut BufReader<&DtpStream>,
    deadline: Option<Instant>,
    tell: &mut dyn FnMut(Progress),
    progress: Progress,
) -> io::Result<String> {
    loop {
        match reader.fill_buf() {
            Ok(_) => return read_line(reader),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                tell(Progress { waiting: stream.is_suspended(), ..progress });
                past(deadline)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Fetches a file into `target`. What is there of it already (`target` with `.part`) is not fetched again. Gives its octets.
///
/// # Errors
/// Those of the stream and of files, [`ErrorKind::TimedOut`] at the deadline; `.part` stays for the next time.
pub fn get(
    stream: &DtpStream,
    name: &str,
    target: &Path,
    deadline: Option<Instant>,
    tell: &mut dyn FnMut(Progress),
) -> io::Result<u64> {
    let part = part_of(target);
    let mut file = OpenOptions::new().append(true).create(true).open(&part)?;
    let offset = file.metadata()?.len();
    writeln!(&mut &*stream, "GET {offset} {name}")?;
    stream.set_read_timeout(Some(LOOK));
    let mut reader = BufReader::with_capacity(PIECE, stream);
    let line = answer_line(stream, &mut reader, deadline, tell, Progress::default());
    let total = match line.and_then(|line| number_after("OK", &line)) {
        Ok(total) => total,
        Err(error) => {
            if offset == 0 {
                // Nothing has come of it.
                let _ = fs::remove_file(&part);
            }
            return Err(error);
        }
    };
    let got = copy(&mut reader, &mut file, |done| {
        tell(Progress { done: offset + done, total, waiting: stream.is_suspended() });
        past(deadline)
    })?;
    file.sync_all()?;
    if offset + got != total {
        return Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "the server ended early; what came is kept",
        ));
    }
    fs::rename(&part, target)?;
    Ok(total)
}

/// Sends a file. Gives its octets, once the server has said that it has them and their SHA-256 is right.
///
/// # Errors
/// Those of the stream and of files, [`ErrorKind::TimedOut`] at the deadline, [`ErrorKind::InvalidData`] when the server got something else.
pub fn put(
    stream: &DtpStream,
    source: &Path,
    name: &str,
    deadline: Option<Instant>,
    tell: &mut dyn FnMut(Progress),
) -> io::Result<u64> {
    let mut file = File::open(source)?;
    let total = file.metadata()?.len();
    writeln!(&mut &*stream, "PUT {total} {name}")?;
    stream.set_read_timeout(Some(LOOK));
    stream.set_write_timeout(Some(LOOK));
    let mut reader = BufReader::new(stream);
    let line = answer_line(stream, &mut reader, deadline, tell, Progress::default())?;
    let offset = number_after("OK", &line)?;
    if offset > total {
        return Err(io::Error::new(ErrorKind::InvalidData, "the server has more than there is"));
    }
    file.seek(SeekFrom::Start(offset))?;
    copy(&mut file.take(total - offset), &mut &*stream, |done| {
        tell(Progress { done: offset + done, total, waiting: stream.is_suspended() });
        past(deadline)
    })?;
    stream.shutdown(Shutdown::Write)?;
    let progress = Progress { done: total, total, waiting: false };
    let line = answer_line(stream, &mut reader, deadline, tell, progress)?;
    match line.split_once(' ') {
        Some(("DONE", digest)) if digest == sha256(source)? => Ok(total),
        Some(("DONE", _)) => Err(io::Error::new(
            ErrorKind::InvalidData,
            "the server got other octets: the file has changed meanwhile",
        )),
        Some(("ERR", reason)) => Err(io::Error::other(format!("the server says: {reason}"))),
        _ => Err(io::Error::new(ErrorKind::InvalidData, "an answer that makes no sense")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_directory() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("here"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("out")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("new"), root.path().join("idle")).unwrap();
        assert!(locate(root.path(), "here").is_ok());
        assert!(locate(root.path(), "here.part").is_err());
        assert!(locate(root.path(), "new/deep").is_ok());
        for name in ["", "/etc/passwd", "../x", "a/../../x", "out/x", "idle", "idle/x", "./here/.."]
        {
            assert!(locate(root.path(), name).is_err(), "{name:?}");
        }
        assert!(
            must_be_file(&root.path().join("here")).is_ok() && must_be_file(root.path()).is_err()
        );
    }
}
