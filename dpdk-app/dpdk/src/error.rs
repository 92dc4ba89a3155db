//! Errors that say what could not be done, why, and what to try.

use std::ffi::CStr;
use std::fmt;

/// Something that DPDK refused, or that was asked of it wrongly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    what: String,
    errno: i32,
    log_lines: Vec<String>,
    advice: Option<&'static str>,
}

impl Error {
    /// A call of DPDK that failed with `errno` (of either sign); `log` is what DPDK logged meanwhile.
    pub(crate) fn call(what: impl Into<String>, errno: i32, log: &str) -> Self {
        Self {
            what: what.into(),
            errno: errno.saturating_abs(),
            log_lines: log
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect(),
            advice: None,
        }
    }

    /// Something that never reached DPDK because it cannot be right.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self::call(what, 0, "")
    }

    /// Adds what the reader can do about it.
    pub(crate) fn advise(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }

    /// DPDK's error number as in `errno.h`; 0 when DPDK was not asked at all.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// What to try, where that is known.
    pub fn advice(&self) -> Option<&str> {
        self.advice
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.errno != 0 {
            write!(f, ": {}", describe(self.errno))?;
        }
        if !self.log_lines.is_empty() {
            write!(f, " (DPDK logged: {})", self.log_lines.join(" | "))?;
        }
        if let Some(advice) = self.advice {
            write!(f, ". {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// The error number of the last failed call on this thread, for calls that return only a null pointer.
pub(crate) fn last_errno() -> i32 {
    // SAFETY: the call reads a thread-local integer and has no precondition.
    unsafe { dpdk_sys::dpdk_sys_errno() }
}

/// DPDK's words for an error number.
fn describe(errno: i32) -> String {
    // SAFETY: rte_strerror takes any number and returns a NUL-terminated string: a constant or a
    // thread-local buffer that stays as it is until this thread's next call. It is copied at once.
    let text = unsafe {
        let text = dpdk_sys::rte_strerror(errno);
        if text.is_null() {
            None
        } else {
            Some(CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    text.unwrap_or_else(|| format!("error {errno}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_sentence_with_reason_log_and_advice() {
        let error = Error::call("port 'a' cannot be started", -libc::ENODEV, "PMD: no link\n\n")
            .advise("Look at the cable.");
        assert_eq!(
            error.to_string(),
            "port 'a' cannot be started: No such device (DPDK logged: PMD: no link). Look at the cable."
        );
        assert_eq!(error.errno(), libc::ENODEV);
    }

    #[test]
    fn a_refusal_has_no_reason_of_dpdk() {
        assert_eq!(Error::refused("there is no lcore 7").to_string(), "there is no lcore 7");
    }
}
