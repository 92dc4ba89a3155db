//! Logs are set up once in a process, so this test has a process of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use heddle_host::config::LogLevel;
use heddle_host::logs::{AlreadySetUp, init, init_to};

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn messages_of_both_kinds_are_written_from_the_level_on() {
    let page = Page::default();
    let writer = page.clone();
    init_to(LogLevel::Info, false, move || writer.clone()).unwrap();
    log::info!("from log");
    tracing::warn!(port = "a", "from tracing");
    log::debug!("too quiet");
    tracing::debug!("too quiet");
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].ends_with("Z  INFO from log"), "{text}");
    assert!(lines[1].ends_with("Z  WARN from tracing port=\"a\""), "{text}");
    assert_eq!(init(LogLevel::Off), Err(AlreadySetUp));
}
