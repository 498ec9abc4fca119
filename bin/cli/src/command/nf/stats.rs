//! `calisto nf stats`: what running chains have counted.

use std::path::{Path, PathBuf};

use chain::figures::Figures;
use chain::socket;
use clap::Args;

use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Show what running chains have counted; counters that are still zero only with --all.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto nf stats                      every chain of this host\n  \
    calisto nf stats edge --help-text     one of them, and what each counter means\n  \
    calisto nf stats edge -j              everything, for a script")]
pub(crate) struct Stats {
    /// The chain's name; without it: all that run.
    name: Option<String>,
    /// Say what each counter means.
    #[arg(long)]
    help_text: bool,
    /// Counters that are zero as well.
    #[arg(long)]
    all: bool,
}

impl Stats {
    pub(crate) fn run(&self, sockets: &Path, json: bool) -> Result<(), Failure> {
        for path in paths(sockets, self.name.as_deref())? {
            let figures = socket::ask(&path).map_err(Failure::new)?;
            if json {
                output::json(&figures)?;
            } else {
                output::text(&render(&figures, self.help_text, self.all))?;
            }
        }
        Ok(())
    }
}

/// The sockets of all chains that run, or of the one of that name.
pub(super) fn paths(sockets: &Path, name: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let paths = match name {
        Some(name) if name.contains(['/', '\0']) => {
            return Err(Failure::usage(format!("{name:?} cannot be the name of a chain")));
        }
        Some(name) => vec![socket::path_of(sockets, name)],
        None => socket::list(sockets),
    };
    if paths.is_empty() {
        let folder = sockets.display();
        return Err(Failure::new(format!(
            "no chain runs (none has a socket in {folder}): start one with `calisto nf run FILE`"
        )));
    }
    Ok(paths)
}

/// The figures for people.
pub(super) fn render(figures: &Figures, help_text: bool, all: bool) -> String {
    let Figures { name, pid, uptime_seconds, .. } = figures;
    let mut text = format!("chain {name}, process {pid}, forwards for {uptime_seconds:.0} s\n");
    if let Some(router) = &figures.router {
        text.push_str(&format!(
            "routes of {}: {} of IPv4, {} of IPv6; {} changes; {} neighbours known, asked {} times\n",
            router.routes,
            router.ipv4_routes,
            router.ipv6_routes,
            router.route_changes,
            router.neighbours,
            router.neighbours_asked
        ));
        if router.routes_withheld > 0 {
            let withheld = router.routes_withheld;
            text.push_str(&format!(
                "{withheld} routes find no room in the tables: packets that they might be for are \
                 dropped\n"
            ));
        }
    }
    let head = if help_text { "what it counts" } else { "" };
    let mut table = Table::new(["slice", "of", "counter", "value", head]);
    for slice in &figures.slices {
        for group in &slice.groups {
            let of = match group.of.as_str() {
                "slice" => "slice".to_owned(),
                of => format!("{of} {}", group.name),
            };
            if let Some(fault) = &group.fault {
                text.push_str(&format!("slice {}, {of}: {fault}\n", slice.name));
            }
            for counter in group.counters.iter().filter(|counter| all || counter.value > 0) {
                let help = if help_text { counter.help.as_str() } else { "" };
                table.row([
                    slice.name.as_str().into(),
                    of.as_str().into(),
                    counter.name.as_str().into(),
                    counter.value.into(),
                    help.into(),
                ]);
            }
        }
    }
    text.push_str(&table.render());
    text
}
