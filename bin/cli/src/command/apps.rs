//! `calisto apps`: which applications are attached, and which were.

use admin::{AppStatus, Command, ReplyBody};
use clap::{Args, Subcommand};

use crate::command::detach::detach;
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table};
use crate::target::Admin;

/// Show the applications that are attached, in packet mode and by their sockets, and why others are
/// gone.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  calisto apps\n  calisto apps detach dns\n  \
    calisto explain dns                                   all about one")]
pub(crate) struct Apps {
    #[command(flatten)]
    admin: Admin,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The same as `calisto detach`.
    #[command(after_help = "Example:\n  calisto apps detach dns")]
    Detach {
        /// Its name or number; with `packet:` or `sockets:` before it where both kinds have one.
        app: String,
    },
}

impl Apps {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        match &self.action {
            Some(Action::Detach { app }) => detach(daemon, app, json),
            None => match daemon.ask(Command::Apps)? {
                body @ ReplyBody::Apps { .. } if json => output::json(&body),
                ReplyBody::Apps { apps } => output::text(&render(&apps)),
                other => Err(daemon.unexpected(&other)),
            },
        }
    }
}

fn render(apps: &[AppStatus]) -> String {
    if apps.is_empty() {
        return "no application is attached; docs/tutorials/first-program.md says how to write one\n".to_owned();
    }
    let mut table = Table::new([
        "app",
        "number",
        "process",
        "user",
        "listens on",
        "sockets",
        "workers",
        "packets",
        "state",
    ]);
    for app in apps {
        let packets: u64 = app.workers.iter().map(|worker| worker.packets).sum();
        let in_packet_mode = |figure: u64| Cell::maybe(app.served.is_none().then_some(figure));
        let state = match &app.reason {
            Some(reason) => format!("{}: {}", app.state, reason.message),
            None => app.state.clone(),
        };
        table.row([
            app.name.as_str().into(),
            Cell::Number(app.id.to_string()),
            Cell::Number(app.pid.to_string()),
            Cell::Number(app.uid.to_string()),
            app.listen.join(" ").as_str().into(),
            Cell::maybe(app.served.as_ref().map(|served| u64::from(served.sockets))),
            in_packet_mode(app.workers.len() as u64),
            in_packet_mode(packets),
            state.as_str().into(),
        ]);
    }
    table.render()
}

#[cfg(test)]
pub(super) mod tests {
    use admin::{AppLimits, Reason, ServedSockets};

    use super::*;

    /// An application that is gone.
    pub(in crate::command) fn app() -> AppStatus {
        AppStatus {
            name: "dns".to_owned(),
            id: 3,
            pid: 4711,
            uid: 1000,
            state: "gone".to_owned(),
            reason: Some(Reason {
                name: "died".to_owned(),
                message: "its process ended".to_owned(),
            }),
            listen: vec!["udp:10.0.0.2:53".to_owned()],
            workers: Vec::new(),
            region_bytes: 1 << 20,
            frames: 512,
            frames_with_app: 0,
            limits: AppLimits::default(),
            served: None,
            counters: Vec::new(),
        }
    }

    #[test]
    fn who_is_gone_is_shown_with_the_reason() {
        let text = render(&[app()]);
        assert!(text.contains("gone: its process ended"), "{text}");
        assert!(render(&[]).contains("no application"));
    }

    #[test]
    fn a_program_is_shown_with_its_sockets_beside_one_that_is_given_packets() {
        let served = ServedSockets { sockets: 12, pids: vec![7, 8], profile: "latency".to_owned() };
        let program = AppStatus {
            name: "redis-server".to_owned(),
            id: 9,
            served: Some(served),
            state: "attached".to_owned(),
            reason: None,
            ..app()
        };
        let text = render(&[program, app()]);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][5..], ["12", "-", "-", "attached"], "{text}");
        assert_eq!(rows[1][5..8], ["-", "0", "0"], "{text}");
    }
}
