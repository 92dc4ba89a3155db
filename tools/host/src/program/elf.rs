//! Takes the code of a program out of an ELF file, as clang makes it with `-target bpf`.

use super::error::ProgramError;
use super::instruction::{Instruction, decode_all};
use object::elf::{EM_BPF, SHF_EXECINSTR};
use object::read::elf::{ElfFile64, FileHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionFlags};

/// How an ELF file begins.
pub const MAGIC: [u8; 4] = *b"\x7fELF";

/// The instructions of section `.text`, or where that is empty of the first section with code. The program begins with its first one.
///
/// # Errors
/// The file is no ELF file, has no code, or its code refers to anything outside.
pub fn code(file: &[u8]) -> Result<Vec<Instruction>, ProgramError> {
    let not_elf = |error: object::Error| ProgramError::NotElf { reason: error.to_string() };
    let elf = ElfFile64::<LittleEndian>::parse(file).map_err(not_elf)?;
    let machine = elf.elf_header().e_machine(LittleEndian);
    if machine != EM_BPF {
        return Err(ProgramError::NotBpf { machine: machine.0 });
    }
    let has_code = |section: &object::read::elf::ElfSection64<'_, '_, LittleEndian>| {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return false };
        sh_flags.0 & SHF_EXECINSTR.0 != 0 && section.size() > 0
    };
    let section = elf
        .sections()
        .find(|section| section.name() == Ok(".text") && has_code(section))
        .or_else(|| elf.sections().find(has_code))
        .ok_or(ProgramError::NoCode)?;
    if let Some((at, relocation)) = section.relocations().next() {
        let symbol = match relocation.target() {
            RelocationTarget::Symbol(index) => elf
                .symbol_by_index(index)
                .ok()
                .and_then(|symbol| symbol.name().ok().map(str::to_owned))
                .filter(|name| !name.is_empty()),
            _ => None,
        };
        return Err(ProgramError::Relocation {
            section: section.name().unwrap_or("?").to_owned(),
            at,
            symbol: symbol.unwrap_or_else(|| "another section".to_owned()),
        });
    }
    let octets = section.data().map_err(not_elf)?;
    if octets.is_empty() {
        return Err(ProgramError::NoCode);
    }
    decode_all(octets).ok_or(ProgramError::CutOff { octets: octets.len() })
}
