//! Programs as Debian ships them, unmodified, served by Calisto: everything that they sent and
//! received went its way, and is exact.

mod bodies;
mod curl;
mod iperf;
mod memcached;
mod nginx;
mod proxy;
mod python;
mod redis;
mod ssh;
mod table;
mod tls;

use std::process::Command;
use std::sync::OnceLock;

use whole::project;

/// The commands that these tests run, and Debian's packages with them.
const PACKAGES: &[&str] = &[
    "redis-server=redis-server",
    "redis-cli=redis-tools",
    "memcached=memcached",
    "nginx=nginx",
    "iperf3=iperf3",
    "curl=curl",
    "wrk=wrk",
    "/usr/bin/python3=python3",
    "/usr/lib/python3/dist-packages/requests=python3-requests",
    "openssl=openssl",
    "/usr/sbin/sshd=openssh-server",
    "ssh=openssh-client",
];

/// Installs what is missing, once; a machine where that cannot be done fails here and not later.
pub(crate) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let mut script = Command::new(project().join("script/install-missing"));
        let output = script.args(PACKAGES).output().expect("bash is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the programs to test cannot be installed: {said}");
    });
}
