//! Files over streams: one request a stream, and whoever was cut off goes on where it stopped.
//!
//! | request line | answer |
//! |---|---|
//! | `GET offset name` | `OK size`, then the octets from `offset` on |
//! | `PUT size name` | `OK offset`: how much is there already; then the client sends the rest, and reads `DONE sha256` |
//!
//! An answer of `ERR reason` ends the stream. Names are relative, without `..`, and stay below the served directory whatever links stand there.

use crate::restored::Rewound;
use crate::stream::DtpStream;
use crate::transfer::{Committer, Incoming, Outgoing, PIECE, note, parse_note};
use crate::upload::Upload;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Octets of the longest line.
const LINE_OCTETS: u64 = 4096;

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

/// Answers one request; gives what it was. Of a stream out of a ticket it is the request of before, and the answer goes on.
///
/// # Errors
/// Those of the stream and of files. The client is told, if it can be.
pub fn serve(stream: &DtpStream, root: &Path, writable: bool) -> io::Result<String> {
    stream.set_rewinding(true);
    stream.set_read_timeout(Some(REQUEST_TIMEOUT));
    let incoming = Incoming { stream, out: Outgoing::default(), writes_again: true };
    let mut reader = BufReader::with_capacity(PIECE, incoming);
    let (line, noted) = match stream.note() {
        Some(note) => {
            let (line, numbers) = parse_note::<2>(&note)?;
            (line, Some(numbers))
        }
        None => (read_line(&mut reader)?, None),
    };
    stream.set_read_timeout(None);
    let result = answer(&mut reader, root, writable, &line, noted);
    if let Err(error) = &result
        && noted.is_none()
        && reader.get_ref().out.position == 0
    {
        let text = error.to_string().replace(['\n', '\r'], " ");
        // The peer may be gone; the error that is given matters more.
        let _ = writeln!(&mut &*stream, "ERR {text}");
        let _ = stream.shutdown(Shutdown::Write);
    }
    result.map(|()| line)
}

fn answer(
    reader: &mut BufReader<Incoming>,
    root: &Path,
    writable: bool,
    line: &str,
    noted: Option<[u64; 2]>,
) -> io::Result<()> {
    let mut words = line.splitn(3, ' ');
    let (verb, number, name) = (words.next(), words.next(), words.next());
    let number: Option<u64> = number.and_then(|number| number.parse().ok());
    match (verb, number, name) {
        (Some("GET"), Some(offset), Some(name)) => {
            give(reader.get_mut(), &locate(root, name)?, offset, line, noted)?;
        }
        (Some("PUT"), Some(size), Some(name)) if writable => {
            let path = locate(root, name)?;
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            stays_below(root, &part_of(&path))?;
            take(reader, &path, size, line, noted)?;
        }
        (Some("PUT"), Some(_), Some(_)) => return Err(refused("this server takes no files")),
        _ => return Err(refused("no request that is known")),
    }
    // A client that restarts goes on while this end has its tickets; otherwise the flow ends as soon as it has all.
    if reader.get_ref().stream.keeps_tickets() { reader.get_mut().linger() } else { Ok(()) }
}

/// What tells whether a file is still the same: its octets, and when it was changed, in nanoseconds.
fn identity(data: &fs::Metadata) -> [u64; 2] {
    let changed = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    [data.len(), changed.map_or(0, |time| time.as_nanos() as u64)]
}

/// Sends the octets of a file from `offset` on.
fn give(
    incoming: &mut Incoming,
    path: &Path,
    offset: u64,
    line: &str,
    noted: Option<[u64; 2]>,
) -> io::Result<()> {
    must_be_file(path)?;
    let file = File::open(path)?;
    let identity = identity(&file.metadata()?);
    let [size, _] = identity;
    if offset > size {
        return Err(refused("the file is shorter than what is there of it"));
    }
    let (stream, out) = (incoming.stream, &mut incoming.out);
    out.head = format!("OK {size}\n").into_bytes();
    out.file = Some((file, offset, size - offset));
    out.ends = true;
    match noted {
        Some(noted) if noted != identity => {
            return Err(refused("the file has changed since the transfer began"));
        }
        Some(_) => out.resume(stream, &mut || Ok(()))?,
        None => stream.commit(line.len() as u64 + 1, &note(line, &identity))?,
    }
    out.send(stream, &mut |_| Ok(()))
}

/// Takes a file of `size` octets.
fn take(
    reader: &mut BufReader<Incoming>,
    path: &Path,
    size: u64,
    line: &str,
    noted: Option<[u64; 2]>,
) -> io::Result<()> {
    let part = part_of(path);
    for path in [path, &part] {
        if path.exists() {
            must_be_file(path)?;
        }
    }
    let stream = reader.get_ref().stream;
    let request = line.len() as u64 + 1;
    if let Some([offset, _]) = noted {
        // Until its client is there, the file is not this one's: a later transfer may have it.
        let out = &mut reader.get_mut().out;
        out.head = format!("OK {offset}\n").into_bytes();
        out.resume(stream, &mut || Ok(()))?;
    }
    // Octets of the stream so far, and what of the file they are.
    let mut received = request;
    let mut there = None;
    if let Some([offset, _]) = noted {
        received = stream.received().unwrap_or(request).max(request);
        let octets = offset + (received - request);
        if octets == size && !part.exists() && path.metadata()?.len() == size {
            // It was whole, and only the client does not know yet.
            return done(reader, &sha256(path)?);
        }
        there = Some(octets);
    }
    let upload = Upload::resume(&part, size, there)?;
    let offset = noted.map_or(upload.offset, |[offset, _]| offset);
    let note = note(line, &[offset, 0]);
    let out = &mut reader.get_mut().out;
    out.head = format!("OK {offset}\n").into_bytes();
    if noted.is_none() {
        stream.commit(received, &note)?;
    }
    out.send(stream, &mut |_| Ok(()))?;
    let (missing, file) = (size - upload.offset, upload.file()?);
    let mut upload = upload;
    let got = Committer::run(stream, &file, note, received, |tell| {
        copy(&mut reader.take(missing), &mut upload, |got| {
            tell(received + got);
            Ok(())
        })
    })?;
    if got != missing {
        return Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "the client ended early; what came is kept",
        ));
    }
    let digest = upload.finish(path)?;
    done(reader, &digest)
}

/// Says that a file is whole.
fn done(reader: &mut BufReader<Incoming>, digest: &str) -> io::Result<()> {
    let incoming = reader.get_mut();
    let (stream, out) = (incoming.stream, &mut incoming.out);
    out.tail = format!("DONE {digest}\n").into_bytes();
    out.ends = true;
    out.send(stream, &mut |_| Ok(()))
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

pub(crate) fn past(deadline: Option<Instant>) -> io::Result<()> {
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
    reader: &mut BufReader<Incoming>,
    deadline: Option<Instant>,
    tell: &mut dyn FnMut(Progress),
    progress: Progress,
) -> io::Result<String> {
    loop {
        match reader.fill_buf() {
            Ok(_) => return read_line(reader),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                let waiting = reader.get_ref().stream.is_suspended();
                tell(Progress { waiting, ..progress });
                past(deadline)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Fetches a file into `target`. What is there of it already (`target` with `.part`) is not fetched again. Gives its octets. A stream out of a ticket
/// goes on with the request of before.
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
    let there = file.metadata()?.len();
    stream.set_rewinding(true);
    stream.set_read_timeout(Some(LOOK));
    stream.set_write_timeout(Some(LOOK));
    let noted = stream.note().map(|note| parse_note::<3>(&note)).transpose()?;
    let (request, offset) = match &noted {
        Some((request, [offset, ..])) => (request.clone(), *offset),
        None => (format!("GET {there} {name}"), there),
    };
    if request != format!("GET {offset} {name}") {
        return Err(refused("the ticket is of another transfer"));
    }
    let out = Outgoing { head: format!("{request}\n").into_bytes(), ..Outgoing::default() };
    let incoming = Incoming { stream, out, writes_again: true };
    let mut reader = BufReader::with_capacity(PIECE, incoming);
    // Octets of the answer before the file's, all octets of the stream so far, and what of the file is there by them.
    let (total, head, received) = match noted {
        Some((_, [_, head, total])) => {
            let received = stream.received().unwrap_or(0);
            let known = offset + received.saturating_sub(head);
            if received < head || known > there || known > total {
                return Err(refused("what was there of the file is gone"));
            }
            file.set_len(known)?;
            let progress = Progress { done: known, total, waiting: true };
            let out = &mut reader.get_mut().out;
            out.resume(stream, &mut || {
                tell(progress);
                past(deadline)
            })?;
            (total, head, received)
        }
        None => {
            reader.get_mut().out.send(stream, &mut |_| past(deadline))?;
            let line = answer_line(&mut reader, deadline, tell, Progress::default());
            let total =
                line.and_then(|line| Ok((number_after("OK", &line)?, line.len() as u64 + 1)));
            match total {
                Ok((total, head)) => (total, head, head),
                Err(error) => {
                    if offset == 0 {
                        // Nothing has come of it.
                        let _ = fs::remove_file(&part);
                    }
                    return Err(error);
                }
            }
        }
    };
    reader.get_mut().out.send(stream, &mut |_| past(deadline))?;
    let note = note(&request, &[offset, head, total]);
    let known = offset + (received - head);
    let handle = file.try_clone()?;
    let got = Committer::run(stream, &handle, note, received, |keep| {
        copy(&mut reader, &mut file, |done| {
            keep(received + done);
            tell(Progress { done: known + done, total, waiting: stream.is_suspended() });
            past(deadline)
        })
    })?;
    file.sync_all()?;
    if known + got != total {
        return Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "the server ended early; what came is kept",
        ));
    }
    fs::rename(&part, target)?;
    Ok(total)
}

/// Sends a file. Gives its octets, once the server has said that it has them and their SHA-256 is right. A stream out of a ticket goes on with the request of before.
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
    let file = File::open(source)?;
    let identity = identity(&file.metadata()?);
    let [total, changed] = identity;
    let request = format!("PUT {total} {name}");
    stream.set_rewinding(true);
    stream.set_read_timeout(Some(LOOK));
    stream.set_write_timeout(Some(LOOK));
    let out = Outgoing { head: format!("{request}\n").into_bytes(), ..Outgoing::default() };
    let incoming = Incoming { stream, out, writes_again: true };
    let mut reader = BufReader::new(incoming);
    let noted = stream.note().map(|note| parse_note::<2>(&note)).transpose()?;
    let offset = match &noted {
        Some((before, [offset, time])) if *before == request && *time == changed => *offset,
        Some(_) => return Err(refused("the file has changed, or the ticket is of another one")),
        None => {
            reader.get_mut().out.send(stream, &mut |_| past(deadline))?;
            let line = answer_line(&mut reader, deadline, tell, Progress::default())?;
            let offset = number_after("OK", &line)?;
            stream.commit(line.len() as u64 + 1, &note(&request, &[offset, changed]))?;
            offset
        }
    };
    if offset > total {
        return Err(io::Error::new(ErrorKind::InvalidData, "the server has more than there is"));
    }
    let incoming = reader.get_mut();
    incoming.out.file = Some((file, offset, total - offset));
    incoming.out.ends = true;
    incoming.writes_again = false;
    if noted.is_some() {
        incoming.out.resume(stream, &mut || {
            tell(Progress { done: offset, total, waiting: true });
            past(deadline)
        })?;
    }
    let line = loop {
        reader.get_mut().out.send(stream, &mut |out| {
            let done = offset + out.of_file();
            tell(Progress { done, total, waiting: stream.is_suspended() });
            past(deadline)
        })?;
        let progress = Progress { done: total, total, waiting: false };
        match answer_line(&mut reader, deadline, tell, progress) {
            Err(error) if Rewound::of(&error).is_some() => reader.get_mut().out.rewind(error)?,
            other => break other?,
        }
    };
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
