//! Reads what /proc and /sys say, and what they mean by it. Any text is possible.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longer files are cut: nothing that is read here is as long, and nothing may fill the memory.
const BYTES_MAX: u64 = 4 << 20;

/// CPUs of a list are below it, the most that Linux can be built for.
const CPU_END: u16 = 8192;

/// The file's text; `None` where it is missing, not ours to read, or its reading fails.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The file's text without blanks around it.
pub(crate) fn read_word(path: impl AsRef<Path>) -> Option<String> {
    read(path).map(|text| text.trim().to_owned())
}

/// The number that the file holds.
pub(crate) fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

/// The text behind `key:` at the start of a line.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The CPUs of a list like `0-3,8`; parts that are none are left out.
pub(crate) fn cpu_list(text: &str) -> Vec<u16> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u16>(), last.trim().parse::<u16>())
        else {
            continue;
        };
        if last < CPU_END {
            cpus.extend(first..=last);
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The shortest list of ascending CPUs: `0-3,8`.
pub(crate) fn write_cpu_list(cpus: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let run = |&(first, last): &(u16, u16)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// The chosen word of a line like `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cpu_list_has_single_numbers_and_ranges() {
        assert_eq!(cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert!(cpu_list("\n").is_empty());
        assert_eq!(cpu_list("x,2,5-3,1-"), [2]);
        assert!(cpu_list("0-65535").is_empty(), "no machine has that many");
        assert_eq!(write_cpu_list(&[0, 1, 2, 3, 8]), "0-3,8");
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\n";
        assert_eq!(field(text, "Cpus_allowed_list"), Some("0-1"));
        assert_eq!(field(text, "Cpus"), None);
    }

    #[test]
    fn a_file_that_is_not_there_or_no_file_has_no_text() {
        assert_eq!(read("/proc/self/no-such-file"), None);
        assert_eq!(read("/proc/self"), None);
    }

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("madvise"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".*") {
            let cpus = cpu_list(&text);
            prop_assert!(cpus.is_sorted());
            field(&text, "key");
            chosen(&text);
        }

        #[test]
        fn a_list_that_was_written_is_read_back(set in prop::collection::btree_set(0u16..512, 0..64)) {
            let cpus: Vec<u16> = set.into_iter().collect();
            prop_assert_eq!(cpu_list(&write_cpu_list(&cpus)), cpus);
        }
    }
}
