//! sshd, whose processes divide the rights of one login among them and lock themselves in, and ssh
//! and scp: each at either end.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use whole::{Accelerated, Program};

use crate::bodies::{sha256, write_body};
use crate::install;

const PORT: &str = "2222";

/// Keys and settings, in a folder of their own that nobody else writes to.
struct Keys {
    folder: PathBuf,
}

impl Keys {
    fn new(accelerated: &Accelerated) -> Self {
        let folder = accelerated.daemon().folder().join("ssh");
        std::fs::create_dir(&folder).expect("the folder is ours");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&folder, mode).expect("the folder is ours");
        // Where sshd puts its children away.
        std::fs::create_dir_all("/run/sshd").expect("this test runs as root");
        for name in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name));
            let output = keygen.output().expect("ssh-keygen is installed");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let keys = Self { folder };
        let settings = format!(
            "Port {PORT}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
             StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             Subsystem sftp internal-sftp\nUseDNS no\n",
            keys.path("host"),
            keys.path("user.pub"),
        );
        std::fs::write(keys.folder.join("sshd_config"), settings).expect("the folder is ours");
        keys
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// What ssh and scp are told.
    fn options(&self) -> Vec<String> {
        let options = [
            "-F".to_owned(),
            "none".to_owned(),
            "-i".to_owned(),
            self.path("user"),
            "-o".to_owned(),
            format!("Port={PORT}"),
        ];
        let more = ["StrictHostKeyChecking=no", "BatchMode=yes", "ConnectTimeout=20"];
        let known = format!("UserKnownHostsFile={}", self.path("known"));
        let more = more.into_iter().map(str::to_owned).chain([known]);
        options.into_iter().chain(more.flat_map(|word| ["-o".to_owned(), word])).collect()
    }
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn run(accelerated: &Accelerated, is_here: bool, words: &[String]) -> Program {
    if is_here { accelerated.run(&strs(words)) } else { accelerated.run_there(&strs(words)) }
}

fn copied(accelerated: &Accelerated, is_client_here: bool, is_server_here: bool, keys: &Keys) {
    let side = if is_server_here { accelerated.here() } else { accelerated.there() };
    let host = side.ipv4().to_string();
    let sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", &keys.path("sshd_config")];
    let sshd: Vec<String> = sshd.into_iter().map(str::to_owned).collect();
    let mut server = run(accelerated, is_server_here, &sshd);
    server.wait_until_it_says("Server listening");
    let words = |program: &str, more: &[String]| {
        let program = std::iter::once(program.to_owned());
        program.chain(keys.options()).chain(more.iter().cloned()).collect::<Vec<String>>()
    };
    let login = [format!("root@{host}"), "echo who logs in hears this; exit 7".to_owned()];
    let ended = run(accelerated, is_client_here, &words("ssh", &login)).end();
    assert_eq!(
        (ended.status.code(), &*ended.out),
        (Some(7), "who logs in hears this\n"),
        "{}",
        ended.said
    );
    let (body, came) = (keys.folder.join("body"), keys.folder.join("came"));
    let sum = write_body(&body);
    let there_and_back: [[&Path; 2]; 2] = [[&body, &came], [&came, &body]];
    for [from, to] in there_and_back {
        let remote = |path: &Path| format!("root@{host}:{}", path.display());
        let local = |path: &Path| path.display().to_string();
        let is_upload = from == body;
        let more = match is_upload {
            true => [local(from), remote(to)],
            false => [remote(from), local(to)],
        };
        run(accelerated, is_client_here, &words("scp", &more)).succeed();
        assert_eq!(sha256(to), sum, "an upload: {is_upload}");
        std::fs::remove_file(from).expect("it was copied");
    }
    server.kill();
}

#[test]
fn sshd_lets_in_and_takes_and_gives_files() {
    install();
    let accelerated = Accelerated::start();
    let keys = Keys::new(&accelerated);
    copied(&accelerated, false, true, &keys);
    let carried = accelerated.carried();
    assert!(carried.received > 100 << 20 && carried.sent > 100 << 20, "{carried:?}");
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}

#[test]
fn ssh_and_scp_run_on_calisto_too() {
    install();
    let accelerated = Accelerated::start();
    let keys = Keys::new(&accelerated);
    copied(&accelerated, true, false, &keys);
    let carried = accelerated.carried();
    assert!(carried.received > 100 << 20 && carried.sent > 100 << 20, "{carried:?}");
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}

#[test]
fn both_ends_of_a_login_are_accelerated_within_the_host() {
    install();
    let accelerated = Accelerated::start();
    let keys = Keys::new(&accelerated);
    copied(&accelerated, true, true, &keys);
    assert_eq!(accelerated.carried().sent, 0, "no packet was needed");
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}
