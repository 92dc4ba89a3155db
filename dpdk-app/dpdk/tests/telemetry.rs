//! A telemetry command, asked over DPDK's socket. One EAL, so one test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dpdk::{Dict, Value, register_command};
use serde_json::{Value as Json, json};

#[test]
fn a_closure_answers_on_the_socket() {
    let eal = common::start(1);
    let answer = |parameters: &str| -> Dict {
        let many: Dict =
            (0..100).map(|i| (format!("counter_{i}"), Value::from(u64::MAX))).collect();
        let port: Dict = vec![("rx_frames".into(), 5.into())];
        let ports: Dict = vec![("h-1".into(), port.into())];
        vec![
            ("name".into(), "E".into()),
            ("parameters".into(), parameters.into()),
            ("ports".into(), ports.into()),
            ("counters".into(), many.into()),
        ]
    };
    register_command(&eal, "/test/stats", "Statistics of the test", answer).unwrap();
    register_command(&eal, "/test/panic", "Panics", |_| panic!("expected")).unwrap();
    assert!(register_command(&eal, "no-slash", "", |_| Dict::new()).is_err());
    assert!(register_command(&eal, &format!("/{}", "x".repeat(80)), "", |_| Dict::new()).is_err());

    let socket = Socket::connect(&eal.runtime_directory().unwrap().join("dpdk_telemetry.v2"));
    assert!(socket.receive()["version"].as_str().unwrap().starts_with("DPDK"));
    let reply = socket.ask("/test/stats,a,b");
    let stats = &reply["/test/stats"];
    assert_eq!(stats["name"], "E");
    assert_eq!(stats["parameters"], "a,b");
    assert_eq!(stats["ports"], json!({"h_1": {"rx_frames": 5}}));
    assert_eq!(stats["counters"].as_object().unwrap().len(), 100);
    assert_eq!(stats["counters"]["counter_99"], u64::MAX);

    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(socket.ask("/test/panic"), json!({"/test/panic": null}));
    // Registering again replaces the answer.
    register_command(&eal, "/test/panic", "Panics no more", |_| vec![("ok".into(), 1.into())])
        .unwrap();
    assert_eq!(socket.ask("/test/panic"), json!({"/test/panic": {"ok": 1}}));
}

/// DPDK's telemetry socket keeps message boundaries (SOCK_SEQPACKET), which the standard library's do not.
struct Socket(OwnedFd);

impl Socket {
    fn connect(path: &Path) -> Self {
        // SAFETY: the descriptor is new and nobody else owns it; the address is a sockaddr_un whose path
        // is shorter than its array, so that a NUL ends it.
        unsafe {
            let socket = OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0));
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as u16;
            let octets = OsStr::new(path).as_bytes();
            assert!(octets.len() < address.sun_path.len());
            for (to, from) in address.sun_path.iter_mut().zip(octets) {
                *to = *from as libc::c_char;
            }
            let length = std::mem::size_of_val(&address) as u32;
            let status = libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length);
            assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
            Self(socket)
        }
    }

    fn ask(&self, command: &str) -> Json {
        // SAFETY: the descriptor is open, and the octets can be read.
        let sent = unsafe {
            libc::send(
                self.0.as_raw_fd(),
                command.as_ptr().cast(),
                command.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        assert_eq!(sent, command.len() as isize);
        self.receive()
    }

    fn receive(&self) -> Json {
        let mut octets = vec![0u8; 65536];
        // SAFETY: the descriptor is open, and the buffer can be written.
        let count =
            unsafe { libc::recv(self.0.as_raw_fd(), octets.as_mut_ptr().cast(), octets.len(), 0) };
        let octets = &octets[..usize::try_from(count).unwrap()];
        serde_json::from_slice(octets)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(octets)))
    }
}
