//! How much memory the rings of all programs may take together: what the control group, or else
//! the machine, has left when the daemon starts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::log;

/// Below this nobody could be served: the daemon says so by refusing instead.
const BYTES_MIN: u64 = 4 << 20;

/// The budget for rings in bytes: `chosen_mib` if that is not zero, what there is otherwise.
pub(crate) fn budget_bytes(chosen_mib: u32) -> u64 {
    match chosen_mib {
        0 => {
            let root = Path::new("/");
            if let Some(group) = hidden_group(root) {
                tracing::warn!(
                    target: log::SOCKETS,
                    "the memory limit of control group {group} cannot be read here (`ip netns exec` \
                     hides it): rings of programs may take half of what the machine has, or \
                     `sockets.memory_mib`"
                );
            }
            available_bytes(root).max(BYTES_MIN)
        }
        chosen => u64::from(chosen) << 20,
    }
}

/// Half of the memory that the machine has available, and no more than three quarters of what is
/// left to the control group. The rest is for what grows with connections beside rings.
fn available_bytes(root: &Path) -> u64 {
    let machine = number_after(&root.join("proc/meminfo"), "MemAvailable:").map(|kib| kib << 10);
    let machine = machine.unwrap_or(u64::MAX) / 2;
    let group = limits(root).into_iter().map(|(limit, used)| limit.saturating_sub(used) / 4 * 3);
    group.fold(machine, u64::min)
}

/// The control group whose memory may be limited and whose files are not to be seen; none when its
/// limits can be read, or it is the outermost.
fn hidden_group(root: &Path) -> Option<String> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_memory = |line: &&str| {
        let controllers = line.split(':').nth(1);
        controllers.is_some_and(|names| names.is_empty() || names == "memory")
    };
    let mut paths = groups.lines().filter(of_memory).filter_map(|line| line.splitn(3, ':').nth(2));
    let inner = paths.rfind(|path| *path != "/").map(str::to_owned);
    inner.filter(|_| limits(root).is_empty())
}

/// The limits of this process's control group and of those above it, each with what is used of it,
/// in bytes.
fn limits(root: &Path) -> Vec<(u64, u64)> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        // proc(5), cgroups(7): number, controllers, path.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        match controllers {
            "" => {
                for mount in ["sys/fs/cgroup", "sys/fs/cgroup/unified"] {
                    let files = ["memory.max", "memory.current", "inactive_file "];
                    found.extend(limits_above(&root.join(mount), path, files));
                }
            }
            "memory" => {
                let mount = root.join("sys/fs/cgroup/memory");
                let files =
                    ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "];
                found.extend(limits_above(&mount, path, files));
            }
            _ => {}
        }
    }
    found
}

/// The same below `mount`: `files` are those of the limit and of what is used, and the word in
/// `memory.stat` for pages of files that the kernel takes back before it kills anybody.
fn limits_above(mount: &Path, path: &str, files: [&str; 3]) -> Vec<(u64, u64)> {
    let [limit, used, reclaimable] = files;
    let below: PathBuf = Path::new(path).strip_prefix("/").unwrap_or(Path::new("")).into();
    let folders = below.ancestors().map(|part| mount.join(part));
    let read = |folder: PathBuf| {
        let limit = number(&folder.join(limit))?;
        let used = number(&folder.join(used)).unwrap_or(0);
        let cached = number_after(&folder.join("memory.stat"), reclaimable).unwrap_or(0);
        Some((limit, used.saturating_sub(cached)))
    };
    folders.filter_map(read).collect()
}

/// The number that a file consists of; `max` is none.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number after a word at the beginning of a line.
fn number_after(path: &Path, word: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like the root of a machine, and goes with this.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = format!("calisto-machine-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(folder);
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
                fs::write(path, text).expect("it can be written");
            }
            Self(root)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn without_a_control_group_half_of_what_is_available_may_be_taken() {
        let root = Machine::new(
            "plain",
            &[
                ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n"),
                ("proc/self/cgroup", "0::/\n"),
            ],
        );
        assert_eq!(available_bytes(&root.0), 4000 << 10);
    }

    #[test]
    fn the_tightest_group_above_decides_and_what_is_used_of_it_is_gone() {
        let root = Machine::new(
            "groups",
            &[
                ("proc/meminfo", "MemAvailable: 80000000 kB\n"),
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/memory.max", "67108864\n"),
                ("sys/fs/cgroup/a/memory.current", "41943040\n"),
                ("sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 8388608\n"),
            ],
        );
        assert_eq!(available_bytes(&root.0), (64 - 40 + 8) * (1 << 20) / 4 * 3);
    }

    #[test]
    fn the_older_control_groups_are_read_too() {
        let root = Machine::new(
            "older",
            &[
                ("proc/meminfo", "MemAvailable: 80000000 kB\n"),
                ("proc/self/cgroup", "4:memory:/x\n1:cpu:/\n"),
                ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4194304\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        assert_eq!(available_bytes(&root.0), 3 << 20);
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_spoken_of() {
        let hidden = Machine::new("hidden", &[("proc/self/cgroup", "4:memory:/x\n0::/\n")]);
        assert_eq!(hidden_group(&hidden.0).as_deref(), Some("/x"));
        let outermost = Machine::new("outermost", &[("proc/self/cgroup", "4:memory:/\n0::/\n")]);
        assert_eq!(hidden_group(&outermost.0), None);
        let seen = Machine::new(
            "seen",
            &[("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "7\n")],
        );
        assert_eq!(hidden_group(&seen.0), None);
    }

    #[test]
    fn what_the_operator_chose_holds_whatever_there_is() {
        assert_eq!(budget_bytes(7), 7 << 20);
        assert!(budget_bytes(0) >= BYTES_MIN);
    }
}
