//! What a compiled program is: whether a library can be loaded before it, and serve its calls.

use std::path::Path;

use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Architecture, Endianness, FileKind, Object, ReadRef};

use super::obstacle::Flaw;

/// Sections that only Go's linker makes.
const OF_GO: [&str; 2] = [".go.buildinfo", ".note.go.buildid"];

/// What this program itself is built for, and so the library beside it.
const OWN: Architecture = if cfg!(target_arch = "x86_64") {
    Architecture::X86_64
} else if cfg!(target_arch = "aarch64") {
    Architecture::Aarch64
} else {
    Architecture::Unknown
};

/// What keeps a library out of the program in `file`, if anything.
pub(crate) fn flaw<'data, R: ReadRef<'data>>(file: R) -> Option<Flaw> {
    let found = match FileKind::parse(file) {
        Ok(FileKind::Elf32) => return Some(Flaw::Bits32),
        Ok(FileKind::Elf64) => ElfFile::parse(file).map(|elf| of_elf64(&elf)),
        Ok(_) => return Some(Flaw::Malformed("it is no ELF file".to_owned())),
        Err(error) => Err(error),
    };
    found.and_then(|found| found).unwrap_or_else(|error| Some(Flaw::Malformed(error.to_string())))
}

fn of_elf64<'data, R: ReadRef<'data>>(
    elf: &ElfFile<'data, object::elf::FileHeader64<Endianness>, R>,
) -> object::Result<Option<Flaw>> {
    let machine = elf.architecture();
    if machine != OWN {
        return Ok(Some(Flaw::OtherMachine(format!("{machine:?}"))));
    }
    if OF_GO.iter().any(|name| elf.section_by_name(name).is_some()) {
        return Ok(Some(Flaw::Go));
    }
    let endian = elf.endian();
    for header in elf.elf_program_headers() {
        if let Some(loader) = header.interpreter(endian, elf.data())? {
            return Ok(of_loader(&String::from_utf8_lossy(loader)));
        }
    }
    let anywhere = elf.elf_header().e_type(endian) == object::elf::ET_DYN;
    Ok(Some(if anywhere { Flaw::StaticPie } else { Flaw::Static }))
}

/// By its name: distributions put the same loader into different folders.
fn of_loader(loader: &str) -> Option<Flaw> {
    let name = Path::new(loader).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.starts_with("ld-linux") {
        None
    } else if name.starts_with("ld-musl") {
        Some(Flaw::Musl)
    } else {
        Some(Flaw::OtherLoader(loader.to_owned()))
    }
}

#[cfg(test)]
pub(crate) mod tests;
