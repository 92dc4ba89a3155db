//! Compiled programs stop where they have to, beside memory that nobody may read; the programs in tools/openflow/programs; how long a run
//! takes (printed).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../tools/host/tests/program/mod.rs"]
mod program;

use dpdk::Compiler;
use heddle_core::flow::Programs;
use heddle_host::program::{
    Backend, Fault, Instruction, Interpreter, Program, ProgramSet, Registry,
};
use program::{EXIT, PLACE, copy, i, load, load_octet, octets, run, set};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Three pages of which only the middle one may be touched.
struct Guarded {
    pages: *mut libc::c_void,
}

const PAGE: usize = 4096;

impl Guarded {
    fn new() -> Self {
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                3 * PAGE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(pages, libc::MAP_FAILED);
        // SAFETY: the middle page belongs to the mapping just made.
        let done = unsafe {
            libc::mprotect(pages.byte_add(PAGE), PAGE, libc::PROT_READ | libc::PROT_WRITE)
        };
        assert_eq!(done, 0);
        Self { pages }
    }

    /// The page that may be touched.
    fn page(&self) -> &[u8] {
        // SAFETY: the page is mapped, readable, zeroed by the kernel, and nobody writes to it while it is borrowed.
        unsafe { std::slice::from_raw_parts(self.pages.byte_add(PAGE).cast(), PAGE) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and nothing borrows from it any more.
        unsafe { libc::munmap(self.pages, 3 * PAGE) };
    }
}

#[test]
fn nothing_is_read_before_or_behind_a_packet() {
    let guarded = Guarded::new();
    let last = &guarded.page()[PAGE - 64..];
    let first = &guarded.page()[..64];
    for (code, width) in [(0x71, 1), (0x69, 2), (0x61, 4), (0x79, 8)] {
        for offset in (-9..9).chain(55..73) {
            // At a constant distance; at one that is computed; from a wild address.
            let constant = vec![load(2, 1, 32), i(code, 0, 2, offset, 0), EXIT];
            let computed = vec![
                load(2, 1, 32),
                load(3, 1, 16),
                i(0x17, 3, 0, 0, 64 - i32::from(offset)),
                i(0x0f, 2, 3, 0, 0),
                i(code, 0, 2, 0, 0),
                EXIT,
            ];
            let wild = vec![
                load(2, 1, 32),
                i(0xa7, 2, 0, 0, -1),
                i(0xa7, 2, 0, 0, -1),
                i(code, 0, 2, offset, 0),
                EXIT,
            ];
            // Several at once, of which the first ones are inside.
            let together = vec![
                load(2, 1, 32),
                load_octet(3, 2, 20),
                load_octet(4, 2, 30),
                i(code, 0, 2, offset, 0),
                EXIT,
            ];
            for text in [constant, computed, wild, together] {
                let program = Program::load(&octets(&text)).unwrap();
                for packet in [first, last] {
                    let inside = offset >= 0 && i32::from(offset) + width <= 64;
                    let expected = if inside { Ok(0) } else { Err(Fault::Outside) };
                    for backend in [&Interpreter as &dyn Backend, &Compiler] {
                        assert_eq!(run(backend, &program, &[], packet), expected, "{text:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn loops_are_unrolled_and_go_on_in_the_interpreter() {
    // For each octet of the packet, adds up the numbers from it down to 1.
    let text = [
        load(2, 1, 32),
        load(3, 1, 16),
        set(0, 0),
        i(0x15, 3, 0, 8, 0),
        load_octet(4, 2, 0),
        i(0x15, 4, 0, 3, 0),
        i(0x0f, 0, 4, 0, 0),
        i(0x07, 4, 0, 0, -1),
        i(0x55, 4, 0, -3, 0),
        i(0x07, 2, 0, 0, 1),
        i(0x07, 3, 0, 0, -1),
        i(0x55, 3, 0, -8, 0),
        EXIT,
    ];
    let program = Program::load(&octets(&text)).unwrap();
    assert!(program.unrolled().is_some());
    for (length, octet) in [(0, 0), (1, 9), (7, 5), (30, 20), (60, 60), (300, 3)] {
        let packet = vec![octet; length];
        let expected = Ok(length as u64 * u64::from(octet) * (u64::from(octet) + 1) / 2);
        assert_eq!(run(&Compiler, &program, &[], &packet), expected);
        assert_eq!(run(&Interpreter, &program, &[], &packet), expected);
    }
    let forever = Program::load(&octets(&[set(0, 0), i(0x05, 0, 0, -2, 0)])).unwrap();
    assert_eq!(run(&Compiler, &forever, &[], &[]), Err(Fault::Budget));
}

#[test]
fn many_branches_are_compiled_in_little_time() {
    // 2^1500 ways, each with other values in registers and on the stack.
    let mut text = vec![load(6, 1, 32), set(0, 1), set(2, 3), copy(3, 0), i(0x7b, 10, 0, -8, 0)];
    for step in 0..1500 {
        text.extend([
            load_octet(5, 6, step % 60),
            i(0x15, 5, 0, 2, i32::from(step % 250)),
            i(0x0f, 0, 5, 0, 0),
            i(0x7b, 10, 5, -8, 0),
            i(0x07, 2, 0, 0, 1),
        ]);
    }
    text.extend([i(0x0f, 0, 2, 0, 0), load(2, 10, -8), i(0x0f, 0, 2, 0, 0), EXIT]);
    let program = Program::load(&octets(&text)).unwrap();
    let packet: Vec<u8> = (0..60).collect();
    let expected = program::meaning(&text, &[], &packet).ok_or(Fault::Outside);
    assert_eq!(run(&Compiler, &program, &[], &packet), expected);
}

#[test]
fn the_longest_programs_are_compiled() {
    let code = [vec![set(0, 0)], vec![i(0x07, 0, 0, 0, 3); 32_000], vec![EXIT]].concat();
    let program = Program::load(&octets(&code)).unwrap();
    assert_eq!(run(&Compiler, &program, &[], &[]), Ok(96_000));
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/openflow/programs")
}

/// An Ethernet frame with IPv4 and UDP to port 6363 around this.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let udp = (payload.len() + 8) as u16;
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend((udp + 20).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend([0x18, 0xdb, 0x18, 0xdb]);
    frame.extend(udp.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    match u8::try_from(value.len()) {
        Ok(length) if length < 253 => out.push(length),
        _ => {
            out.push(253);
            out.extend((value.len() as u16).to_be_bytes());
        }
    }
    out.extend(value);
    out
}

/// The TLV-VALUE of a Name.
fn name(uri: &str) -> Vec<u8> {
    uri.split('/').skip(1).flat_map(|component| tlv(8, component.as_bytes())).collect()
}

fn packet(kind: u8, uri: &str) -> Vec<u8> {
    tlv(kind, &[tlv(7, &name(uri)), vec![0x0a, 4, 1, 2, 3, 4]].concat())
}

#[test]
fn name_prefixes_are_whole_components() {
    const INTEREST: u64 = u64::MAX;
    const DATA: u64 = u64::MAX - 1;
    let program = Program::load(&std::fs::read(programs().join("ndn-prefix.o")).unwrap()).unwrap();
    assert!(!program.has_loops());
    let long = format!("/{}/b", "a".repeat(240));
    let deep = "/a".repeat(31);
    let interest = |uri: &str| datagram(&packet(5, uri));
    let lp = |fields: &[u8], fragment: &[u8]| {
        datagram(&tlv(100, &[fields.to_vec(), tlv(80, fragment)].concat()))
    };
    let mut ethernet = vec![2; 12];
    ethernet.extend([0x86, 0x24]);
    ethernet.extend(packet(5, "/tno/a"));
    let mut other_port = interest("/tno");
    other_port[35] = 0;
    other_port[37] = 0;
    let mut tcp = interest("/tno");
    tcp[23] = 6;
    let mut piece = interest("/tno");
    piece[21] = 9;
    let mut options = interest("/tno");
    options[14] = 0x46;
    options.splice(34..34, [1; 4]);
    let mut cut = interest("/tno/abc");
    cut.truncate(48);
    let cases: Vec<(&str, Vec<u8>, u64)> = vec![
        ("/tno", interest("/tno"), INTEREST),
        ("/tno", interest("/tno/a/b"), INTEREST),
        ("/tno", datagram(&packet(6, "/tno/a")), DATA),
        ("/t", interest("/tno"), 0),
        ("/tno", interest("/t"), 0),
        ("/tno", interest("/x/tno"), 0),
        ("/x/tno", interest("/x/tno/1"), INTEREST),
        ("/x/tno", interest("/x/tn"), 0),
        ("/tno", interest("/tnO"), 0),
        ("", interest("/tno"), INTEREST),
        ("", interest(""), 0),
        ("/tno", ethernet, INTEREST),
        ("/tno", other_port, 0),
        ("/tno", tcp, 0),
        ("/tno", piece, 0),
        ("/tno", options, INTEREST),
        ("/tno", cut, 0),
        ("/tno", vec![0; 10], 0),
        ("/tno", lp(&[], &packet(5, "/tno/a")), INTEREST),
        // A PIT token and a congestion mark.
        ("/tno", lp(&[98, 2, 1, 2, 0xfd, 0x03, 0x40, 1, 1], &packet(5, "/tno/a")), INTEREST),
        ("/t", lp(&[98, 2, 1, 2], &packet(5, "/tno/a")), 0),
        // A Nack, and a packet in pieces.
        ("/tno", lp(&[0xfd, 0x03, 0x20, 0], &packet(5, "/tno/a")), 0),
        ("/tno", lp(&[82, 1, 0, 83, 1, 2], &packet(5, "/tno/a")), 0),
        (&long, interest(&long), INTEREST),
        (&long, interest(&format!("{long}/c")), INTEREST),
        (&long, interest(&format!("{long}c")), 0),
        (&deep, interest(&format!("{deep}/a/a/a")), INTEREST),
        (&deep, interest(&"/a".repeat(30)), 0),
    ];
    for (prefix, frame, expected) in &cases {
        for backend in [&Interpreter as &dyn Backend, &Compiler] {
            assert_eq!(
                run(backend, &program, &name(prefix), frame),
                Ok(*expected),
                "{prefix} {frame:02x?}"
            );
        }
    }
    // Part of a component is no name.
    assert_eq!(run(&Compiler, &program, &[8, 3, b't'], &interest("/tno")), Ok(0));
}

#[test]
fn a_program_in_the_style_of_older_switches_runs() {
    let program =
        Program::load(&std::fs::read(programs().join("first-component.o")).unwrap()).unwrap();
    for backend in [&Interpreter as &dyn Backend, &Compiler] {
        let verdict = |uri| run(backend, &program, b"tno", &datagram(&packet(5, uri))).unwrap();
        assert_eq!(verdict("/tno/1"), u64::MAX);
        assert_eq!(verdict("/tno-1"), 0);
        assert_eq!(verdict("/x/tno"), 0);
    }
}

#[test]
fn the_files_are_what_their_sources_say() {
    let directory = std::env::temp_dir().join(format!("heddle-programs-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let built =
        std::process::Command::new(programs().join("build")).arg(&directory).status().unwrap();
    assert!(built.success());
    let frames =
        ["/tno", "/tno/a/b", "/x/tno", "/tnoa", "/t", "/"].map(|uri| datagram(&packet(5, uri)));
    for (file, parameter) in
        [("ndn-prefix.o", name("/tno")), ("first-component.o", b"tno".to_vec())]
    {
        let [kept, new] = [programs(), directory.clone()]
            .map(|directory| Program::load(&std::fs::read(directory.join(file)).unwrap()).unwrap());
        for frame in &frames {
            assert_eq!(
                run(&Compiler, &kept, &parameter, frame),
                run(&Compiler, &new, &parameter, frame),
                "{file}: run tools/openflow/programs/build"
            );
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn how_long_a_run_takes() {
    let elf = std::fs::read(programs().join("ndn-prefix.o")).unwrap();
    let frame = datagram(&packet(5, "/site/app/1"));
    let backends: [fn() -> Box<dyn Backend>; 2] = [|| Box::new(Compiler), || Box::new(Interpreter)];
    for backend in backends {
        let mut registry = Registry::new(1, vec![backend()]);
        let mut worker = ProgramSet::new();
        let changes = registry.put(1, &elf).unwrap();
        let parameter = registry.set_parameter(1, 1, &name("/site/app/1")).unwrap();
        assert!(
            changes.into_iter().chain(parameter).filter_map(|change| worker.apply(change)).count()
                <= 1
        );
        // The best of several: on a shared machine the others say more of the neighbours.
        let runs = 2_000;
        let each = (0..20).map(|_| {
            let start = Instant::now();
            for _ in 0..runs {
                assert_eq!(worker.run(1, 1, PLACE, &frame), Some(u64::MAX));
            }
            start.elapsed() / runs
        });
        let each = each.min().unwrap();
        println!("{}: {each:?} a run of ndn-prefix", registry.stats()[0].backend);
    }
}

#[test]
fn what_is_compiled_is_freed() {
    let program = Program::load(&octets(&[set(0, 1), EXIT])).unwrap();
    let text: Vec<Instruction> = program.text().to_vec();
    assert!(text.len() > 2);
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let before = mappings();
    for _ in 0..10_000 {
        assert_eq!(run(&Compiler, &program, &[], &[]), Ok(1));
    }
    assert!(mappings() < before + 1000);
}
