//! The Debian package: what is in it, that it installs and goes, and that its units are sound.

use std::path::{Path, PathBuf};
use std::process::Command;

use whole::{project, run};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("calisto-package-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command that must succeed; what it prints.
fn must(program: impl AsRef<Path>, arguments: &[&str]) -> String {
    let program = program.as_ref();
    let (status, out, said) = run(Command::new(program).args(arguments));
    assert!(status.success(), "{} {arguments:?}: {out}{said}", program.display());
    out
}

/// Builds the package of the programs that the tests run.
fn package(folder: &Folder) -> String {
    let folder = folder.0.to_str().expect("a plain path");
    let out = must(project().join("script/package"), &["--debug", folder]);
    out.lines().last().expect("it prints the package").to_owned()
}

const CONTENTS: [&str; 17] = [
    "./usr/bin/calisto",
    "./usr/bin/calistod",
    "./usr/bin/calisto-lab",
    "./usr/lib/calisto/libcalisto_preload.so",
    "./usr/lib/systemd/system/calisto.service",
    "./usr/lib/systemd/system/calisto-metrics.service",
    "./usr/lib/sysusers.d/calisto.conf",
    "./etc/calisto/calisto.toml",
    "./usr/share/man/man1/calisto.1.gz",
    "./usr/share/man/man1/calisto-metrics.1.gz",
    "./usr/share/man/man5/calisto.toml.5.gz",
    "./usr/share/man/man8/calistod.8.gz",
    "./usr/share/bash-completion/completions/calisto",
    "./usr/share/zsh/vendor-completions/_calisto",
    "./usr/share/fish/vendor_completions.d/calisto.fish",
    "./usr/share/doc/calisto/examples/prometheus/calisto.rules.yml",
    "./usr/share/doc/calisto/copyright",
];

#[test]
fn the_package_has_everything_installs_runs_and_leaves_only_the_configuration() {
    let folder = Folder::new("install");
    let package = package(&folder);
    let listed = must("dpkg-deb", &["--contents", &package]);
    for file in CONTENTS {
        assert!(listed.lines().any(|line| line.ends_with(file)), "{file} is not in {listed}");
    }
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    let root = folder.0.join("root");
    // Its maintainer scripts run outside and leave this system alone, as DPKG_ROOT tells them; its
    // dependencies are this system's.
    let dpkg = |words: &[&str]| {
        let at = [root.to_str().expect("a plain path")];
        let root = format!("--root={}", at[0]);
        let all =
            [&[root.as_str(), "--force-depends", "--force-script-chrootless"], words].concat();
        must("dpkg", &all)
    };
    std::fs::create_dir_all(root.join("var/lib/dpkg/updates")).expect("the folder is ours");
    std::fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("the folder is ours");
    std::fs::write(root.join("var/lib/dpkg/status"), "").expect("the folder is ours");
    std::fs::create_dir_all(root.join("etc")).expect("the folder is ours");
    dpkg(&["--install", &package]);
    let users = std::fs::read_to_string(root.join("etc/passwd")).expect("a user was made");
    assert!(users.contains("calisto:"), "{users}");
    let command = root.join("usr/bin/calisto");
    let config = root.join("etc/calisto/calisto.toml");
    let file = config.to_str().expect("a plain path");
    // It begins with no port, and the check says so; with one it is right.
    let (status, out, _) = run(Command::new(&command).args(["config", "check", file]));
    assert!(status.code() == Some(1) && out.contains("`ports` is missing"), "{out}");
    let text = std::fs::read_to_string(&config).expect("it was installed");
    std::fs::write(&config, text.replace("#ports = []", "ports = [\"xdp:eth1\"]")).expect("ours");
    must(&command, &["config", "check", "--elsewhere", file]);
    must(root.join("usr/bin/calistod"), &["--version"]);
    dpkg(&["--remove", "calisto"]);
    assert!(!command.exists() && config.exists(), "a changed configuration stays");
    dpkg(&["--purge", "calisto"]);
    assert!(!config.exists());
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_and_little_exposed() {
    let script = project().join("script/install-missing");
    must(script, &["systemd-analyze=systemd"]);
    let folder = Folder::new("units");
    for unit in ["calisto.service", "calisto-metrics.service"] {
        let text = std::fs::read_to_string(project().join("packaging/systemd").join(unit));
        // The programs are not where the package puts them, which systemd would complain of.
        let text = text.expect(unit).replace("/usr/bin/calisto", "/bin/true");
        let text = text.replace("/bin/trued", "/bin/true");
        std::fs::write(folder.0.join(unit), text).expect("the folder is ours");
        let file = folder.0.join(unit);
        let mut verify = Command::new("systemd-analyze");
        let (status, out, said) =
            run(verify.args(["verify", "--man=no"]).arg(&file).env("SYSTEMD_LOG_LEVEL", "warning"));
        let about: Vec<_> = said.lines().filter(|line| line.contains(unit)).collect();
        assert!(status.success() && about.is_empty(), "{out}{said}");
    }
    let at = folder.0.join("calisto-metrics.service");
    let security = ["security", "--offline=yes", "--threshold=25"];
    must("systemd-analyze", &[&security[..], &[at.to_str().expect("a plain path")]].concat());
}

#[test]
fn pages_can_be_read_by_man() {
    must(project().join("script/install-missing"), &["man=man-db"]);
    let folder = Folder::new("man");
    let command = whole::binary("calisto");
    must(command, &["man", folder.0.to_str().expect("a plain path")]);
    for page in ["calisto.1", "calistod.8", "calisto.toml.5", "calisto-config-check.1"] {
        let mut man = Command::new("man");
        let man = man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(folder.0.join(page));
        let (status, out, said) = run(man.env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8"));
        assert!(status.success() && said.is_empty(), "{page}: {said}");
        assert!(out.contains("NAME"), "{page}: {out}");
    }
}
