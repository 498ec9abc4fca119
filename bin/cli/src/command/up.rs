//! `calisto up`: makes one configuration of file and options, and becomes the daemon.

mod replace;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use config::Config;
use sys::cpu_set::CpuSet;

use crate::failure::Failure;
use crate::findings::{self, Findings, Line};
use crate::{output, program, units};

/// Start the daemon and stay in the foreground until Ctrl-C or `calisto down`.
///
/// Settings come from the file, then from the options, then from --set; the later ones win.
/// --port and --listen replace those of the file.
#[derive(Args, Debug, Default)]
#[command(after_help = "Examples:\n  \
    calisto up --port xdp:eth1 --listen udp:10.0.0.2:7\n      \
        echo UDP on a queue of eth1; everything else stays with Linux\n  \
    calisto up --port af_packet:eth1 --listen udp:10.0.0.2:7 --workers 4 --arrangement threads\n      \
        without BPF, four worker threads\n  \
    calisto up --port xdp:eth1 --cores 2-5\n      \
        applications attach, and get CPUs 2 to 5 as they need them\n  \
    calisto up --config calisto.toml --replace\n      \
        a new version, or new settings, in place of the daemon that runs: no connection breaks\n  \
    calisto up --config calisto.toml --set steer.groups=1048576 --print-config\n      \
        what the settings amount to, as TOML")]
pub(crate) struct Up {
    /// Settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A port that carries traffic: KIND:NAME[,OPTION…], kinds xdp, af_packet, tap, pcap; may be
    /// repeated.
    #[arg(long = "port", value_name = "SPEC")]
    pub(crate) ports: Vec<String>,
    /// What is served: udp:ADDRESS:PORT or tcp:ADDRESS:PORT; may be repeated.
    #[arg(long, value_name = "PROTOCOL:ADDRESS:PORT")]
    pub(crate) listen: Vec<String>,
    /// The policy that decides which worker owns which flow.
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Workers at the start.
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u16>,
    /// What the workers do: echo, sink or synthetic; or tcp-echo, tcp-discard, tcp-chargen, as with
    /// `calisto serve`.
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// State that `synthetic` keeps and touches for each flow.
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    pub(crate) state: Option<u64>,
    /// fused: one loop does everything; threads: dispatcher and workers have one each.
    #[arg(long)]
    pub(crate) arrangement: Option<String>,
    /// CPUs that the daemon gives out, such as 2-5,8: to applications that ask for cores, to its
    /// own workers (arrangement threads), and what is left to `calisto run --batch`. They replace
    /// `cores.set`; --set cores.policy=NAME and its neighbours say how they are given.
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<CpuSet>,
    /// Socket on which the daemon takes commands.
    #[arg(long, value_name = "PATH", env = "CALISTO_ADMIN")]
    pub(crate) admin: Option<PathBuf>,
    /// Any setting by its name in the file, such as steer.groups=1048576; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the settings as TOML (with -j as JSON) and do not start; what is wrong with them on
    /// this machine is said on standard error, with exit code 1.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// In place of the daemon that runs at the same socket: when the settings are right on this
    /// machine that one is ended, the kernel goes on with its connections, and this one takes its
    /// ports and listeners; if it does not come up, the one before is started again.
    #[arg(long, conflicts_with = "print_config")]
    pub(crate) replace: bool,
}

impl Up {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let config = self.effective()?;
        if self.print_config {
            return print(&config, json);
        }
        config.check_complete().map_err(|error| {
            let option = if error.key() == Some("ports") { "--port" } else { "--listen" };
            Failure::usage(format!("{error}, or use {option}"))
        })?;
        if self.replace {
            refuse_wrong(&config)?;
        } else if self.config.is_none() {
            // The daemon would say it as well, and not that it is the command line which is wrong.
            let found = daemon::check(&config, None);
            if let Some(wrong) = found.iter().find(|it| it.severity == daemon::Severity::Wrong) {
                return Err(Failure::usage(format!("{}: {}", wrong.key, wrong.says)));
            }
        }
        let program = program::find(program::DAEMON)?;
        let mut command = Command::new(&program);
        // Without a file there is one without a name, which this process keeps open for the daemon.
        let unnamed;
        let (file, settings) = match &self.config {
            // So that the daemon can read it again.
            Some(path) => (path.clone(), self.assignments()?),
            None => {
                unnamed = program::ConfigFile::new(&config)?;
                (unnamed.path().into(), self.shown_settings(&config)?)
            }
        };
        command.arg("--config").arg(file);
        settings.iter().for_each(|set| _ = command.args(["--set", set]));
        if self.replace {
            return replace::run(&config, command);
        }
        // From here on this process is the daemon: its signals and exit code are the daemon's.
        let error = command.exec();
        Err(Failure::new(format!("cannot start {}: {error}", program.display())))
    }

    /// File, then options, then --set.
    pub(crate) fn effective(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => from_file(path)?,
            None => Config::default(),
        };
        let assignments = self.assignments()?;
        config.set_all(assignments.iter().map(String::as_str)).map_err(Failure::usage)?;
        Ok(config)
    }

    /// What an unnamed file holds already, said once more so that `ps` tells one daemon from the
    /// other: the options, and the socket even where it is the usual one.
    fn shown_settings(&self, config: &Config) -> Result<Vec<String>, Failure> {
        let mut settings = self.assignments()?;
        if !settings.iter().any(|set| set.starts_with("admin_socket=")) {
            settings.push(format!("admin_socket={}", quoted(&config.admin_socket)));
        }
        Ok(settings)
    }

    /// The options as `key=value`, in the order in which they are to win.
    fn assignments(&self) -> Result<Vec<String>, Failure> {
        let mut assignments = Vec::new();
        for (key, texts) in [("ports", &self.ports), ("listen", &self.listen)] {
            if !texts.is_empty() {
                // An array of strings is the same in JSON and in TOML.
                let array = serde_json::to_string(texts).map_err(Failure::new)?;
                assignments.push(format!("{key}={array}"));
            }
        }
        // Where the environment names a folder, its socket is meant as if `--admin` said so.
        let folder = std::env::var_os(calisto_client::FOLDER_VARIABLE).filter(|it| !it.is_empty());
        let beside = folder.map(|_| crate::target::default_socket());
        let admin = match self.admin.as_ref().or(beside.as_ref()) {
            Some(path) => Some(path.to_str().ok_or_else(|| {
                let path = path.display();
                Failure::usage(format!("--admin {path} is not UTF-8: choose another path"))
            })?),
            None => None,
        };
        let mut add = |key: &str, value: Option<String>| {
            assignments.extend(value.map(|value| format!("{key}={value}")));
        };
        add("admin_socket", admin.map(quoted));
        add("steer.policy", self.policy.as_deref().map(quoted));
        add("workers.count", self.workers.map(|count| count.to_string()));
        add("workers.job", self.job.as_deref().map(quoted));
        add("workers.state_bytes", self.state.map(|bytes| bytes.to_string()));
        add("workers.arrangement", self.arrangement.as_deref().map(quoted));
        let cores = self.cores.as_ref().map(|set| set.iter().collect::<Vec<_>>());
        add("cores.set", cores.map(|set| format!("{set:?}")));
        assignments.extend(self.set.iter().cloned());
        Ok(assignments)
    }
}

/// Whatever is wrong with the settings on this machine, before the daemon that runs is touched.
fn refuse_wrong(config: &Config) -> Result<(), Failure> {
    let machine = daemon::Machine::here().map_err(Failure::new)?;
    match findings::wrong(&daemon::check(config, Some(&machine))) {
        None => Ok(()),
        Some(wrong) => {
            Err(Failure::usage(format!("{wrong}; the daemon that runs was not touched")))
        }
    }
}

/// The settings, and on standard error what is wrong with them here.
fn print(config: &Config, json: bool) -> Result<(), Failure> {
    match json {
        true => output::json(config)?,
        false => output::text(&config.to_toml())?,
    }
    let machine = daemon::Machine::here().map_err(Failure::new)?;
    let found = daemon::check(config, Some(&machine)).into_iter();
    let lines: Vec<Line> = found.map(|finding| Line::new(finding, None)).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let findings = Findings { file: None, lines };
    eprint!("{}", findings.as_text());
    findings.verdict()
}

/// In quotes, so that no character of it is taken for syntax. JSON strings are TOML strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn from_file(path: &Path) -> Result<Config, Failure> {
    let shown = path.display();
    let text = sys::regular_file::read_text(path, config::FILE_BYTES_MAX)
        .map_err(|error| Failure::new(format!("cannot read the configuration {shown}: {error}")))?;
    Config::parse(&text).map_err(|error| Failure::new(format!("{shown}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(up: &Up) -> Failure {
        up.effective().expect_err("it is wrong")
    }

    #[test]
    fn options_win_over_the_file_and_set_wins_over_both() {
        let path = std::env::temp_dir().join(format!("calisto-up-{}.toml", std::process::id()));
        let text = "ports = ['tap:tap0']\nlisten = ['udp:10.0.0.9:9']\n\
            [workers]\ncount = 2\njob = 'sink'\n[steer]\npolicy = 'calisto'\ngroups = 128\n";
        std::fs::write(&path, text).expect("the folder for temporary files can be written");
        let up = Up {
            config: Some(path.clone()),
            ports: vec!["xdp:eth1,mode=generic".to_owned(), "xdp:eth2".to_owned()],
            policy: Some("modulo".to_owned()),
            workers: Some(100),
            state: Some(256),
            cores: Some("2-4,7".parse().expect("a list")),
            admin: Some("/tmp/a \"b\".sock".into()),
            set: vec!["workers.max=200".to_owned(), "steer.policy=sticky".to_owned()],
            ..Up::default()
        };
        let config = up.effective().expect("all of it is allowed");
        std::fs::remove_file(&path).expect("it is ours");
        assert_eq!(config.ports, ["xdp:eth1,mode=generic", "xdp:eth2"]);
        assert_eq!(config.listen, ["udp:10.0.0.9:9"]);
        assert_eq!(config.admin_socket, "/tmp/a \"b\".sock");
        assert_eq!((config.workers.count, config.workers.max), (100, 200));
        assert_eq!(config.workers.job, config::Job::Sink);
        assert_eq!(config.workers.state_bytes, 256);
        assert_eq!(config.cores.set, [2, 3, 4, 7]);
        assert_eq!((config.steer.policy.as_str(), config.steer.groups), ("sticky", 128));
    }

    #[test]
    fn a_daemon_without_a_file_shows_its_ports_and_its_socket_and_means_nothing_else_by_it() {
        let up = Up {
            ports: vec!["xdp:eth1".to_owned()],
            workers: Some(100),
            set: vec!["workers.max=200".to_owned()],
            ..Up::default()
        };
        let config = up.effective().expect("all of it is allowed");
        let shown = up.shown_settings(&config).expect("plain text");
        assert!(shown.contains(&r#"ports=["xdp:eth1"]"#.to_owned()), "{shown:?}");
        let socket = format!("admin_socket=\"{}\"", config.admin_socket);
        assert_eq!(shown.iter().filter(|set| **set == socket).count(), 1, "{shown:?}");
        let mut again = Config::parse(&config.to_toml()).expect("it was just written");
        again.set_all(shown.iter().map(String::as_str)).expect("it was allowed before");
        assert_eq!(again.to_toml(), config.to_toml());
    }

    #[test]
    fn a_wrong_option_is_wrong_usage_and_says_what_is_allowed() {
        for (up, part) in [
            (Up { job: Some("ecko".to_owned()), ..Up::default() }, "did you mean \"echo\"?"),
            (Up { workers: Some(0), ..Up::default() }, "from 1 to 1024"),
            (Up { set: vec!["steer.polcy=x".to_owned()], ..Up::default() }, "`steer.policy`?"),
            (Up { policy: Some(String::new()), ..Up::default() }, "1 to 64 bytes"),
        ] {
            let failure = refusal(&up);
            assert_eq!(failure.exit_code(), 2);
            assert!(failure.to_string().contains(part), "{failure}");
        }
    }

    #[test]
    fn a_wrong_file_is_named_with_the_line() {
        let path = std::env::temp_dir().join(format!("calisto-bad-{}.toml", std::process::id()));
        std::fs::write(&path, "\nprots = []\n").expect("it can be written");
        let failure = refusal(&Up { config: Some(path.clone()), ..Up::default() });
        std::fs::remove_file(&path).expect("it is ours");
        let sentence = failure.to_string();
        let start = format!("{}: line 2: there is no key `prots`: did", path.display());
        assert!(sentence.starts_with(&start), "{sentence}");
        let failure = refusal(&Up { config: Some("/nowhere/x.toml".into()), ..Up::default() });
        assert!(failure.to_string().contains("cannot read the configuration /nowhere/x.toml"));
    }

    #[test]
    fn without_port_or_listener_it_says_which_option_is_missing() {
        let failure = Up::default().run(false).expect_err("no port");
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().ends_with("or use --port"), "{failure}");
        // Without applications somebody must listen.
        let set = vec!["apps.max=0".to_owned()];
        let up = Up { ports: vec!["xdp:eth1".to_owned()], set, ..Up::default() };
        let failure = up.run(false).expect_err("no listener");
        assert!(failure.to_string().ends_with("or use --listen"), "{failure}");
    }
}
