//! Programs made of nothing but headers, and this one.

use super::*;

/// A program of headers only: its kind of file and machine, its loader, the name of one section.
pub(crate) fn program(
    kind: u16,
    machine: u16,
    loader: Option<&str>,
    section: Option<&str>,
) -> Vec<u8> {
    const HEADER: u64 = 64;
    const SEGMENT: u64 = 56;
    let loader = loader.map(|path| format!("{path}\0")).unwrap_or_default();
    let names = section.map(|name| format!("\0{name}\0")).unwrap_or_default();
    let segments = u16::from(!loader.is_empty());
    let loader_at = HEADER + SEGMENT * u64::from(segments);
    let names_at = loader_at + loader.len() as u64;
    let sections_at = if section.is_some() { names_at + names.len() as u64 } else { 0 };
    let sections = if section.is_some() { 3_u16 } else { 0 };

    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, word: u16| file.extend(word.to_le_bytes());
    let word = |file: &mut Vec<u8>, word: u32| file.extend(word.to_le_bytes());
    let long = |file: &mut Vec<u8>, word: u64| file.extend(word.to_le_bytes());
    half(&mut file, kind);
    half(&mut file, machine);
    word(&mut file, 1);
    long(&mut file, 0);
    long(&mut file, if segments > 0 { HEADER } else { 0 });
    long(&mut file, sections_at);
    word(&mut file, 0);
    for short in [64, 56, segments, 64, sections, if sections > 0 { 2 } else { 0 }] {
        half(&mut file, short);
    }
    if segments > 0 {
        word(&mut file, object::elf::PT_INTERP.0);
        word(&mut file, 4);
        for field in [loader_at, 0, 0, loader.len() as u64, loader.len() as u64, 1] {
            long(&mut file, field);
        }
    }
    file.extend(loader.bytes());
    file.extend(names.bytes());
    let mut section = |name: u32, kind: u32, at: u64, bytes: u64| {
        word(&mut file, name);
        word(&mut file, kind);
        for field in [0, 0, at, bytes] {
            long(&mut file, field);
        }
        word(&mut file, 0);
        word(&mut file, 0);
        long(&mut file, 1);
        long(&mut file, 0);
    };
    if sections > 0 {
        section(0, 0, 0, 0);
        section(1, 1, 0, 0);
        section(0, 3, names_at, names.len() as u64);
    }
    file
}

pub(crate) const ANYWHERE: u16 = 3;
pub(crate) const FIXED: u16 = 2;
pub(crate) const OURS: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
const OTHER: u16 = 243;
pub(crate) const GLIBC: &str = "/lib64/ld-linux-x86-64.so.2";

#[test]
fn a_program_that_loads_libraries_as_this_one_does_is_fine() {
    let own = std::fs::read("/proc/self/exe").expect("we are a file");
    assert_eq!(flaw(&own[..]), None);
    assert_eq!(flaw(&program(ANYWHERE, OURS, Some(GLIBC), Some(".text"))[..]), None);
    let moved = "/nix/store/abc-glibc/lib/ld-linux-aarch64.so.1";
    assert_eq!(flaw(&program(FIXED, OURS, Some(moved), None)[..]), None);
}

#[test]
fn what_keeps_the_library_out_is_seen_in_the_file() {
    let elf = |kind, machine, loader, section| flaw(&program(kind, machine, loader, section)[..]);
    assert_eq!(elf(FIXED, OURS, None, None), Some(Flaw::Static));
    assert_eq!(elf(ANYWHERE, OURS, None, None), Some(Flaw::StaticPie));
    for section in OF_GO {
        assert_eq!(elf(FIXED, OURS, None, Some(section)), Some(Flaw::Go));
        assert_eq!(elf(ANYWHERE, OURS, Some(GLIBC), Some(section)), Some(Flaw::Go));
    }
    assert_eq!(elf(ANYWHERE, OURS, Some("/lib/ld-musl-x86_64.so.1"), None), Some(Flaw::Musl));
    let bionic = "/system/bin/linker64";
    let other = Some(Flaw::OtherLoader(bionic.to_owned()));
    assert_eq!(elf(ANYWHERE, OURS, Some(bionic), None), other);
    let riscv = Some(Flaw::OtherMachine("Riscv64".to_owned()));
    assert_eq!(elf(ANYWHERE, OTHER, Some(GLIBC), None), riscv);
    let mut small = program(ANYWHERE, 3, None, None);
    small[4] = 1;
    assert_eq!(flaw(&small[..]), Some(Flaw::Bits32));
}

#[test]
fn a_file_that_is_cut_or_lies_about_its_parts_is_malformed_and_nothing_worse() {
    let whole = program(ANYWHERE, OURS, Some(GLIBC), Some(".go.buildinfo"));
    for len in 0..whole.len() {
        // What is missing may be no loader or no sections; the point is that it is read at all.
        let _ = flaw(&whole[..len]);
    }
    for at in 0..whole.len() {
        let mut lie = whole.clone();
        lie[at] = 0xff;
        let _ = flaw(&lie[..]);
    }
    assert!(matches!(flaw(&whole[..63]), Some(Flaw::Malformed(_))));
    assert!(matches!(flaw(&b"\x7fELF"[..]), Some(Flaw::Malformed(_))));
    assert!(matches!(flaw(&b"MZ"[..]), Some(Flaw::Malformed(_))));
}
