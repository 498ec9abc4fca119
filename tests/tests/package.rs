//! The packages: what is in them, that they install and go, and that their units are sound.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, getrlimit};
use whole::{Program, binary, project, run, wait_for};

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

/// Builds the package of the programs that the tests run: nothing is compiled for it.
fn package(kind: &str, folder: &Folder) -> String {
    let folder = folder.0.to_str().expect("a plain path");
    let programs = binary("calisto").with_file_name("");
    let programs = programs.to_str().expect("a plain path");
    let words = ["--built", programs, "--kind", kind, folder];
    let out = must(project().join("script/package"), &words);
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
    let package = package("deb", &folder);
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

/// Runs commands of the shell in a copy of this system that takes changes and forgets them; `$1` is
/// the package. What they print.
fn in_a_copy_of_this_system(package: &str, commands: &str) -> String {
    let copy = r#"set -eu
        mount -t tmpfs none /mnt
        mkdir /mnt/upper /mnt/work /mnt/root
        mount -t overlay none -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
        cp "$1" /mnt/root/
        exec chroot /mnt/root sh -euc "$2" sh "/${1##*/}""#;
    must("unshare", &["--mount", "sh", "-euc", copy, "sh", package, commands])
}

#[test]
fn what_no_package_can_be_built_of_is_refused_with_what_is_wrong() {
    let wrong = [
        (&["--kind"][..], "--kind needs one of"),
        (&["--kind", "dep"], "there is no kind dep: deb, rpm, tar or image"),
        (&["--kid", "deb"], "there is no option --kid"),
        (&["here", "there"], "one folder is enough: here, and then there"),
        (&["--built"], "--built needs the folder of the programs"),
        (&["--built", "/usr"], "there is no calisto in /usr"),
    ];
    for (words, sentence) in wrong {
        let (status, out, said) = run(Command::new(project().join("script/package")).args(words));
        assert_eq!(status.code(), Some(2), "{words:?}");
        assert!(out.is_empty() && said.contains(sentence), "{words:?}: {said}");
    }
}

#[test]
fn the_rpm_has_what_the_debian_package_has_installs_and_goes() {
    must(project().join("script/install-missing"), &["rpmbuild=rpm"]);
    let folder = Folder::new("rpm");
    let package = package("rpm", &folder);
    let listed = must("rpm", &["--query", "--list", "--package", &package]);
    for file in CONTENTS {
        assert!(listed.lines().any(|line| line == &file[1..]), "{file} is not in {listed}");
    }
    // Debian's rpm knows no glibc: that of this system is the one it was linked with.
    let said = in_a_copy_of_this_system(
        &package,
        r#"rpm --install --nodeps "$1"
        getent passwd calisto
        calisto config check --elsewhere /etc/calisto/calisto.toml || echo "check says $?"
        calistod --version
        echo >> /etc/calisto/calisto.toml
        rpm --erase calisto
        ls /usr/bin/calisto* /usr/lib/calisto /etc/calisto 2>&1 || true"#,
    );
    for part in ["calisto:x:", "check says 1", "calistod 0", "calisto.toml.rpmsave"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    assert!(said.contains("'/usr/lib/calisto'"), "its own folder goes with it: {said}");
}

#[test]
fn the_tarball_unpacks_over_a_system_and_goes_as_its_own_text_says() {
    let folder = Folder::new("tar");
    let package = package("tar", &folder);
    let said = in_a_copy_of_this_system(
        &package,
        r#"tar -C / -xzf "$1"
        tar -tzf "$1" | sed 's|^|./|'
        calistod --version
        # The way out, as the text has it.
        text=/usr/share/doc/calisto/INSTALL
        out=$(sed -n '/^To remove/,$p' $text | grep '^    ' | grep -v 'systemctl\|userdel')
        eval "$(echo "$out" | sed "s|calisto-VERSION-ARCH.tar.gz|$1|")"
        ls -d /usr/bin/calisto* /usr/lib/calisto /etc/calisto /usr/share/doc/calisto 2>&1 || true"#,
    );
    for file in CONTENTS {
        assert!(said.lines().any(|line| line == file), "{file} is not in {said}");
    }
    assert!(said.contains("calistod 0"), "{said}");
    for gone in ["/usr/bin/calisto*", "/usr/lib/calisto", "/etc/calisto"] {
        assert!(said.contains(&format!("'{gone}'")), "{gone} stays: {said}");
    }
}

/// A container that goes with the test, however that ends.
struct Container<'a> {
    folder: &'a Folder,
    name: String,
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        // One that has ended has removed itself.
        let _ = podman(self.folder).args(["kill", &self.name]).output();
    }
}

/// A word for podman, as its containers and images go with the folder.
fn podman(folder: &Folder) -> Command {
    let at = |name: &str| folder.0.join(name);
    let mut podman = Command::new("podman");
    podman.args(["--runtime", "runc", "--storage-driver", "vfs", "--root"]).arg(at("store"));
    podman.arg("--runroot").arg(at("run")).arg("--tmpdir").arg(at("tmp"));
    podman
}

/// What the unit lets the daemon keep.
fn capabilities_of_the_unit() -> Vec<String> {
    let unit = project().join("packaging/systemd/calisto.service");
    let unit = std::fs::read_to_string(unit).expect("it is there");
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    line.expect("it has some").split(' ').map(str::to_owned).collect()
}

#[test]
fn the_manual_page_of_the_daemon_names_each_capability_that_the_unit_leaves_it() {
    let folder = Folder::new("man");
    must(binary("calisto"), &["man", folder.0.to_str().expect("it is text")]);
    let page = std::fs::read_to_string(folder.0.join("calistod.8")).expect("it is there");
    for capability in capabilities_of_the_unit() {
        assert!(page.contains(&capability), "{capability}");
    }
}

#[test]
fn the_image_serves_programs_of_the_host_with_the_rights_of_its_compose_file() {
    let needed = ["podman=podman", "buildah=buildah", "runc=runc"];
    must(project().join("script/install-missing"), &needed);
    let folder = Folder::new("image");
    let image = package("image", &folder);
    let (status, out, said) = run(podman(&folder).args(["load", "-i", &image]));
    assert!(status.success(), "{out}{said}");
    let bed = whole::bed();
    let (sockets, config) = (folder.0.join("sockets"), folder.0.join("calisto.toml"));
    std::fs::create_dir(&sockets).expect("the folder is ours");
    std::fs::write(&config, "ports = [\"xdp:veth0\"]\n[workers]\njob = \"sockets\"\n")
        .expect("ours");
    let compose = project().join("packaging/container/compose.yaml");
    let compose = std::fs::read_to_string(compose).expect("it is there");
    let version = env!("CARGO_PKG_VERSION");
    let parts =
        ["cgroup: host", "pid: host", "read_only: true", "/sys/fs/cgroup:/sys/fs/cgroup:ro"];
    for part in parts.map(str::to_owned).into_iter().chain([format!("image: calisto:{version}")]) {
        assert!(compose.lines().any(|line| line.trim_start_matches([' ', '-']) == part), "{part}");
    }
    let container = Container { folder: &folder, name: format!("calisto-{}", std::process::id()) };
    let mut daemon = podman(&folder);
    daemon.args(["run", "--rm", "--name", &container.name, "--pid", "host", "--cgroupns", "host"]);
    daemon.args(["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"]);
    let capabilities = compose.split_once("cap_add:").expect("it has some").1;
    let of_list = |line: &str| line.trim().strip_prefix("- ").map(str::to_owned);
    let capabilities: Vec<_> = capabilities.lines().skip(1).map_while(of_list).collect();
    let of_unit = capabilities_of_the_unit();
    let names: Vec<_> = capabilities.iter().map(|name| format!("CAP_{name}")).collect();
    assert_eq!(names, of_unit, "the image needs what the unit needs");
    for capability in capabilities {
        daemon.args(["--cap-add", &capability]);
    }
    for option in ["seccomp=unconfined", "no-new-privileges"] {
        assert!(compose.contains(&format!("      - {option}\n")), "{option}");
        daemon.args(["--security-opt", option]);
    }
    // Less than podman's own limits, which a test that has fewer rights cannot raise to.
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20).min(1 << 20);
    daemon.args(["--ulimit", &format!("nofile={files}:{files}"), "--ulimit", "nproc=1000:1000"]);
    daemon.arg("--network").arg(format!("ns:/run/netns/{}", bed.server().namespace()));
    daemon.arg("-v").arg(format!("{}:/run/calisto", sockets.display()));
    daemon.arg("-v").arg(format!("{}:/etc/calisto/calisto.toml:ro", config.display()));
    daemon.args(["-v", "/sys/fs/cgroup:/sys/fs/cgroup:ro"]);
    let mut daemon = Program::spawn(daemon.arg(format!("localhost/calisto:{version}")));
    daemon.wait_until_it_says("ready: /run/calisto/admin.sock");
    let socket = sockets.join("apps.sock");
    let mut server = bed.server().command(binary("calisto"));
    server.args(["run", "--strict", "--socket"]).arg(&socket).args(["--", "python3"]);
    let script = project().join("tests/programs/asyncio_server.py");
    let host = bed.server().ipv4().to_string();
    let mut server = Program::spawn(server.arg(script).args([&host, "7000"]));
    server.wait_until_it_says("listening");
    let mut client = bed.client().command("python3");
    let script = project().join("tests/programs/asyncio_client.py");
    let client = Program::spawn(client.arg(script).args([&host, "7000", "3", "50000"])).succeed();
    assert!(client.ends_with("are right\n"), "{client}");
    let admin = sockets.join("admin.sock");
    let admin = admin.to_str().expect("a plain path");
    // What was carried is told a moment late.
    wait_for("bytes on the way of Calisto", || {
        let stats = must(binary("calisto"), &["stats", "--admin", admin]);
        let line = stats.lines().find(|line| line.contains("tcp_bytes_received"));
        let last = line.and_then(|line| line.split_whitespace().last()).unwrap_or_default();
        let bytes: u64 = last.replace(',', "").parse().unwrap_or_default();
        if bytes >= 3 * 50_000 { Ok(()) } else { Err(format!("{line:?}")) }
    });
    server.stop();
    let (status, out, said) = run(podman(&folder).args(["stop", "--time", "20", &container.name]));
    assert!(status.success(), "{out}{said}");
    assert!(daemon.end().status.success(), "it ends in order");
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
    let command = binary("calisto");
    must(command, &["man", folder.0.to_str().expect("a plain path")]);
    for page in ["calisto.1", "calistod.8", "calisto.toml.5", "calisto-config-check.1"] {
        let mut man = Command::new("man");
        let man = man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(folder.0.join(page));
        let (status, out, said) = run(man.env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8"));
        assert!(status.success() && said.is_empty(), "{page}: {said}");
        assert!(out.contains("NAME"), "{page}: {out}");
    }
}
