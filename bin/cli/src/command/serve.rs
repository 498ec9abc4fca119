//! `calisto serve`: a TCP service inside the data plane.

use clap::{Args, ValueEnum};

use crate::command::up::Up;
use crate::failure::Failure;

/// Serve echo, discard or chargen over TCP, from the data plane itself.
///
/// The TCP engine runs in the daemon's workers, with no application behind it: what remains is the
/// cost of TCP and of the port. Runs in the foreground until Ctrl-C or `calisto down`; `calisto
/// stats` shows what the engine counts. Everything else is as with `calisto up`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto serve echo --port xdp:eth1\n      \
        every address of this host, port 7; try it with: nc HOST 7\n  \
    calisto serve chargen --port xdp:eth1 --listen tcp:10.0.0.2:5001 --congestion dctcp\n      \
        bulk towards whoever connects, under DCTCP\n  \
    calisto serve discard --port xdp:eth1 --workers 2 --arrangement threads\n      \
        bulk from whoever connects, two worker threads\n  \
    calisto serve echo --port xdp:eth1 --set tcp.ring_max_kib=16384 --print-config\n      \
        what the settings amount to, as TOML")]
pub(crate) struct Serve {
    /// What is served.
    #[arg(value_enum)]
    service: Service,
    /// Where: tcp:ADDRESS:PORT; may be repeated. Without it every address, at the service's own
    /// port: 7, 9 or 19.
    #[arg(long, value_name = "tcp:ADDRESS:PORT")]
    listen: Vec<String>,
    /// Congestion control of what is sent: cubic, reno, dctcp or timely.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    #[command(flatten)]
    up: ServeUp,
}

/// The options of `calisto up` that make sense here.
#[derive(Args, Debug)]
struct ServeUp {
    /// A port that carries traffic: KIND:NAME[,OPTION…], kinds xdp, af_packet, tap; may be
    /// repeated.
    #[arg(long = "port", value_name = "SPEC")]
    ports: Vec<String>,
    /// Workers at the start, each with an engine of its own.
    #[arg(long, value_name = "N")]
    workers: Option<u16>,
    /// fused: one loop does everything; threads: dispatcher and workers have one each.
    #[arg(long)]
    arrangement: Option<String>,
    /// Settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
    /// Socket on which the daemon takes commands.
    #[arg(long, value_name = "PATH", env = "CALISTO_ADMIN")]
    admin: Option<std::path::PathBuf>,
    /// Any setting by its name in the file, such as tcp.memory_mib=256; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the settings as TOML (with -j as JSON) and do not start.
    #[arg(long)]
    print_config: bool,
}

/// The services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Service {
    /// Every byte comes back (RFC 862).
    Echo,
    /// Every byte is swallowed (RFC 863).
    Discard,
    /// Lines of characters, for as long as anybody reads (RFC 864).
    Chargen,
}

impl Service {
    fn job(self) -> &'static str {
        match self {
            Self::Echo => "tcp-echo",
            Self::Discard => "tcp-discard",
            Self::Chargen => "tcp-chargen",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Echo => 7,
            Self::Discard => 9,
            Self::Chargen => 19,
        }
    }
}

impl Serve {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        self.as_up()?.run(json)
    }

    /// The same as options of `calisto up`.
    fn as_up(&self) -> Result<Up, Failure> {
        if let Some(other) = self.listen.iter().find(|listen| !listen.starts_with("tcp:")) {
            return Err(Failure::usage(format!(
                "--listen {other}: this serves TCP: write tcp:ADDRESS:PORT"
            )));
        }
        let everywhere = || {
            let port = self.service.port();
            vec![format!("tcp:0.0.0.0:{port}"), format!("tcp:[::]:{port}")]
        };
        let listen = if self.listen.is_empty() { everywhere() } else { self.listen.clone() };
        let ServeUp { ports, workers, arrangement, config, admin, set, print_config } = &self.up;
        let congestion = self.congestion.iter();
        let congestion = congestion.map(|name| format!("tcp.congestion=\"{name}\""));
        let set = congestion.chain(set.iter().cloned()).collect();
        Ok(Up {
            config: config.clone(),
            ports: ports.clone(),
            listen,
            workers: *workers,
            job: Some(self.service.job().to_owned()),
            arrangement: arrangement.clone(),
            admin: admin.clone(),
            set,
            print_config: *print_config,
            ..Up::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(listen: &[&str]) -> Serve {
        Serve {
            service: Service::Chargen,
            listen: listen.iter().map(|&text| text.to_owned()).collect(),
            congestion: Some("dctcp".to_owned()),
            up: ServeUp {
                ports: vec!["xdp:eth1".to_owned()],
                workers: Some(2),
                arrangement: None,
                config: None,
                admin: None,
                set: vec!["tcp.ring_kib=128".to_owned()],
                print_config: false,
            },
        }
    }

    #[test]
    fn a_service_is_a_daemon_with_a_job_and_listens_everywhere_unless_told_where() {
        let config =
            serve(&[]).as_up().and_then(|up| up.effective()).expect("all of it is allowed");
        assert_eq!(config.workers.job, config::Job::TcpChargen);
        assert_eq!(config.listen, ["tcp:0.0.0.0:19", "tcp:[::]:19"]);
        assert_eq!(config.tcp.congestion, config::Congestion::Dctcp);
        assert_eq!((config.tcp.ring_kib, config.workers.count), (128, 2));
        let up = serve(&["tcp:10.0.0.2:5001"]).as_up().expect("TCP");
        assert_eq!(up.effective().expect("allowed").listen, ["tcp:10.0.0.2:5001"]);
    }

    #[test]
    fn a_listener_of_another_protocol_is_wrong_usage() {
        let failure = serve(&["udp:10.0.0.2:7"]).as_up().expect_err("it is UDP");
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("write tcp:ADDRESS:PORT"), "{failure}");
    }
}
