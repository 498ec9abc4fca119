//! Pages and sections that no command line defines: calistod(8), calisto.toml(5), and what stands
//! at the end of calisto(1).

use config::Key;
use roff::{Roff, bold, roman};

/// What surrounds the commands, for the end of calisto(1).
pub(super) fn surroundings() -> String {
    let mut page = Roff::new();
    files(&mut page);
    section(&mut page, "ENVIRONMENT", &ENVIRONMENT);
    section(&mut page, "EXIT STATUS", &EXIT_STATUS);
    see_also(
        &mut page,
        "calistod(8), calisto.toml(5), and a page for each command, such as \
                         calisto-status(1)",
    );
    page.render()
}

/// calistod(8).
pub(super) fn calistod() -> String {
    let mut page = begin("calistod", "8", "runs Calisto's data plane in the foreground");
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold("calistod"), roman(" --config FILE [--set KEY=VALUE]...")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "Takes what the configuration names from the kernel, and serves it until SIGINT, SIGTERM or \
         `calisto down`. Then every port is closed, and the traffic is the kernel's again. It is \
         started by systemd, or by `calisto up`, which makes the configuration from options.",
    )]);
    section(&mut page, "OPTIONS", &OPTIONS);
    section(&mut page, "SIGNALS", &SIGNALS);
    section(&mut page, "CAPABILITIES", &CAPABILITIES);
    files(&mut page);
    section(&mut page, "ENVIRONMENT", &DAEMON_ENVIRONMENT);
    section(
        &mut page,
        "EXIT STATUS",
        &[
            ("0", "It ended because it was asked to."),
            (
                "1",
                "It could not start, or a thread without which nobody is served has died; a sentence \
               on standard error says why.",
            ),
        ],
    );
    see_also(&mut page, "calisto(1), calisto.toml(5)");
    page.render()
}

/// calisto.toml(5).
pub(super) fn configuration() -> String {
    let mut page = begin("calisto.toml", "5", "configuration of calistod(8)");
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "A file in TOML. What it does not mention has its default; an unknown key is refused, and \
         so is a value that is out of range. `calisto config check FILE` says everything that is \
         wrong with a file on this machine, and `calisto config example` prints one to begin with. \
         `calisto reload`, or SIGHUP, has the daemon read it again: all that has changed holds from \
         then on, or nothing, and what needs a restart is named.",
    )]);
    let mut current = None;
    for key in config::keys() {
        if current != Some(key.section) {
            current = Some(key.section);
            begin_keys(&mut page, key.section);
        }
        write_key(&mut page, &key);
    }
    files(&mut page);
    see_also(&mut page, "calisto(1), calistod(8)");
    page.render()
}

fn begin_keys(page: &mut Roff, name: &str) {
    let heading = match name {
        "" => "ABOVE THE FIRST SECTION".to_owned(),
        "tenant" => "[[TENANT]]".to_owned(),
        name => format!("[{}]", name.to_uppercase()),
    };
    page.control("SH", [heading.as_str()]);
    if let Some(purpose) = config::section(name) {
        page.text([roman(purpose)]);
    }
}

fn write_key(page: &mut Roff, key: &Key) {
    let Key { name, allowed, help, default, .. } = key;
    page.control("TP", []);
    page.text([bold(*name)]);
    let default = match default.as_str() {
        "" => String::new(),
        default => format!(" Default: {default}."),
    };
    page.text([roman(format!("{help} Allowed: {allowed}.{default}"))]);
}

fn begin(name: &str, number: &str, purpose: &str) -> Roff {
    let mut page = Roff::new();
    let version = concat!("calisto ", env!("CARGO_PKG_VERSION"));
    page.control("TH", [name, number, "", version]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{name} - {purpose}"))]);
    page
}

fn section(page: &mut Roff, heading: &str, rows: &[(&str, &str)]) {
    page.control("SH", [heading]);
    for (term, text) in rows {
        page.control("TP", []);
        page.text([bold(*term)]);
        page.text([roman(*text)]);
    }
}

fn files(page: &mut Roff) {
    section(page, "FILES", &FILES);
}

fn see_also(page: &mut Roff, pages: &str) {
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(pages)]);
}

const FILES: [(&str, &str); 4] = [
    ("/etc/calisto/calisto.toml", "The configuration that systemd's unit starts the daemon with."),
    ("/run/calisto/admin.sock", "Where operators ask the daemon; its user and root may."),
    ("/run/calisto/apps.sock", "Where programs attach; apps.allow says who may."),
    ("/usr/lib/calisto/libcalisto_preload.so", "What `calisto run` loads into programs."),
];

const ENVIRONMENT: [(&str, &str); 7] = [
    ("CALISTO_DIR", "The folder of all sockets, where the next three do not say otherwise."),
    ("CALISTO_ADMIN", "The admin socket, where --admin does not say it."),
    ("CALISTO_APPS", "The socket at which programs attach."),
    ("CALISTO_NF", "The folder of the sockets of running chains."),
    ("CALISTO_PROFILE", "For programs under `calisto run`: latency, throughput or safe."),
    ("CALISTO_PRELOAD", "The library that is loaded into programs, where it is elsewhere."),
    ("CALISTO_QUIET", "If set, programs do not say why a socket stays with the kernel."),
];

const DAEMON_ENVIRONMENT: [(&str, &str); 2] = [
    ("NOTIFY_SOCKET", "Where a service manager hears that the daemon is ready, and ends."),
    ("WATCHDOG_USEC", "It also hears, twice in that many microseconds, that the loop answers."),
];

const EXIT_STATUS: [(&str, &str); 4] = [
    ("0", "Done."),
    ("1", "Something did not work, or is wrong; a sentence on standard error says what to do."),
    ("2", "Wrong usage."),
    ("126, 127", "Of `calisto run`: the program could not be run; there is no such program."),
];

const OPTIONS: [(&str, &str); 4] = [
    ("--config FILE", "The configuration: calisto.toml(5)."),
    (
        "--set KEY=VALUE",
        "Replaces one setting of it, as in --set steer.policy=modulo. May be repeated.",
    ),
    ("-h, --help", "Prints help."),
    ("-V, --version", "Prints the version."),
];

const SIGNALS: [(&str, &str); 3] = [
    (
        "SIGINT, SIGTERM",
        "It ends after sockets of programs had their time (sockets.drain_ms) to \
                         close; a second one hurries it.",
    ),
    (
        "SIGHUP",
        "It reads its configuration again, as calisto reload has it do: all that has changed holds, or \
         nothing.",
    ),
    ("SIGUSR1, SIGUSR2", "Are noted in the log and change nothing."),
];

const CAPABILITIES: [(&str, &str); 5] = [
    ("CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON, CAP_IPC_LOCK", "For XDP ports."),
    (
        "CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH",
        "To look for sockets that other users' programs have open.",
    ),
    ("CAP_CHOWN", "To give a connection that the kernel goes on with to the user whose it was."),
    ("CAP_NET_BIND_SERVICE", "To keep ports below 1024 for programs."),
    ("CAP_SYS_NICE, CAP_KILL", "To move threads of programs to cores that they are granted."),
];
