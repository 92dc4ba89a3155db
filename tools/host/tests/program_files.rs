//! Files that programs come in: as clang makes them, damaged, large, and of other kinds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod program;

use heddle_host::program::{Fault, Interpreter, Program, ProgramError};
use program::run;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;

fn kept(file: &str) -> Vec<u8> {
    std::fs::read(programs().join(file)).unwrap()
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../openflow/programs")
}

/// What clang makes of this.
fn compile(source: &str, options: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("program.c"), directory.path().join("program.o"));
    std::fs::write(&from, source).unwrap();
    let done = Command::new("clang")
        .args(["-target", "bpf", "-O2", "-w", "-c"])
        .args(options)
        .arg(&from)
        .arg("-o")
        .arg(&to)
        .status()
        .expect("clang is there: tools/setup installs it");
    assert!(done.success());
    std::fs::read(to).unwrap()
}

#[test]
fn what_clang_makes_runs() {
    let source = "unsigned long f(const char *c) { const unsigned char *p = *(const unsigned char **)(c + 32);
        unsigned s = 0; for (int i = 0; i < 14; i++) s = s * 31 + p[i] / (p[i + 1] | 1u) - s % 7; return s; }";
    let packet: Vec<u8> = (0..40).collect();
    let expected = (0..14_u32).fold(0_u32, |sum, i| {
        sum.wrapping_mul(31).wrapping_add(i / ((i + 1) | 1)).wrapping_sub(sum % 7)
    });
    for version in ["-mcpu=v1", "-mcpu=v2", "-mcpu=v3"] {
        for optimise in ["-O1", "-O2", "-Os"] {
            let program = Program::load(&compile(source, &[version, optimise])).unwrap();
            assert_eq!(
                run(&Interpreter, &program, &[], &packet),
                Ok(u64::from(expected)),
                "{version} {optimise}"
            );
            assert_eq!(run(&Interpreter, &program, &[], &packet[..14]), Err(Fault::Outside));
        }
    }
}

#[test]
fn the_example_of_the_description_does_what_it_says() {
    let description = std::fs::read_to_string(programs().join("README.md")).unwrap();
    let (_, example) = description.split_once("```c").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let program = Program::load(&compile(example, &["-I", programs().to_str().unwrap()])).unwrap();
    let mut packet = [0; 42];
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[23] = 17;
    packet[37] = 53;
    assert_eq!(run(&Interpreter, &program, &[], &packet), Ok(u64::MAX));
    packet[36] = 1;
    assert_eq!(run(&Interpreter, &program, &[], &packet), Ok(0));
    assert_eq!(run(&Interpreter, &program, &[], &packet[..41]), Ok(0));
}

#[test]
fn code_in_another_section_runs() {
    let source =
        "__attribute__((section(\"match\"))) unsigned long f(const char *c) { return 41 + *c; }";
    let program = Program::load(&compile(source, &["-g"])).unwrap();
    assert_eq!(run(&Interpreter, &program, &[], &[]), Ok(44));
}

#[test]
fn references_are_refused_by_name() {
    let variable = compile("int counter; int f(void) { return ++counter; }", &[]);
    let error = Program::load(&variable).unwrap_err();
    assert!(
        matches!(&error, ProgramError::Relocation { symbol, .. } if symbol == "counter"),
        "{error}"
    );
    let text = "the code refers to `counter` (relocation at octet 0 of section .text): programs have neither maps, global variables, nor functions that are not inlined";
    assert_eq!(error.to_string(), text);

    let call = compile("int other(int); int f(int x) { return other(x) + 1; }", &[]);
    let error = Program::load(&call).unwrap_err();
    assert!(
        matches!(&error, ProgramError::Relocation { symbol, .. } if symbol == "other"),
        "{error}"
    );

    let helper =
        compile("static long (*help)(void) = (void *)9999; long f(void) { return help(); }", &[]);
    let error = Program::load(&helper).unwrap_err().to_string();
    assert_eq!(error, "instruction 0: it calls helper 9999, and programs can call none");
}

#[test]
fn other_files_are_refused() {
    let own = std::fs::read("/proc/self/exe").unwrap();
    let own = &own[..own.len().min(heddle_host::program::MAX_FILE)];
    let error = Program::load(own).unwrap_err();
    assert!(matches!(error, ProgramError::NotBpf { .. } | ProgramError::NotElf { .. }), "{error}");
    let empty = compile("int x;", &[]);
    assert_eq!(Program::load(&empty).unwrap_err(), ProgramError::NoCode);
    let file = kept("ndn-prefix.o");
    for length in (0..file.len()).step_by(7) {
        assert!(Program::load(&file[..length]).is_err(), "{length}");
    }
}

#[test]
fn files_of_64_and_200_kib_load() {
    for kib in [64, 200] {
        // Data that no code refers to.
        let source = format!(
            "const char ballast[{}] = {{1}}; int f(const char *c) {{ return *c; }}",
            kib << 10
        );
        let file = compile(&source, &[]);
        assert!(file.len() >= kib << 10);
        let program = Program::load(&file).unwrap();
        assert_eq!(run(&Interpreter, &program, &[], &[]), Ok(3));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_do_no_harm(
        head in prop::collection::vec((0..64_usize, any::<u8>()), 0..4),
        anywhere in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        length in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut file = kept("first-component.o");
        for (at, octet) in head {
            file[at] = octet;
        }
        for (place, octet) in anywhere {
            *place.get_mut(&mut file) = octet;
        }
        if !whole {
            file.truncate(length.index(file.len()));
        }
        if let Ok(program) = Program::load(&file) {
            let _ = run(&Interpreter, &program, b"tno", &[5; 100]);
        }
    }

    #[test]
    fn octets_do_no_harm(octets in prop::collection::vec(any::<u8>(), 0..400), as_elf in any::<bool>()) {
        let octets = if as_elf { [b"\x7fELF\x02\x01\x01".to_vec(), octets].concat() } else { octets };
        let _ = Program::load(&octets);
    }
}
