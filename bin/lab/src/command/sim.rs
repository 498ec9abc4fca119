//! `calisto sim`: figures and scenarios in virtual time, as files of results.

mod progress;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use cli::failure::Failure;
use cli::output;
use cli::table::Table;
use experiments::{
    Costs, Options, RUNS, RUNS_MAX, Run, Scenario, Shard, Tornado, library, manual, own_load, store,
};

use super::own_load::{How, Source};
use progress::Display;

/// Time between two looks at a stop signal and the progress.
const LOOK: Duration = Duration::from_millis(200);
/// A scenario's file is no longer than this.
const SCENARIO_BYTES_MAX: u64 = 1 << 20;

/// Simulate: the papers' figures, or a scenario of your own.
///
/// The policies are the daemon's own code; cores, links and time are modelled, at costs that
/// `calisto bench` has measured. Each figure becomes a file of JSON lines, of which `calisto
/// report` makes a page. The same seed gives the same bytes, on any number of threads.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto sim --list\n  \
    calisto sim calisto-6                     a figure, as a table here and as results/calisto-6.jsonl\n  \
    calisto sim --all && calisto report       all of them, and the page\n  \
    calisto sim calisto-penalty --tornado     which costs its claims hang on\n  \
    calisto sim mine.toml --seed 7            a scenario of your own; --settings says what it may hold\n  \
    calisto sim --print calisto-6 > mine.toml begin it with one that is there\n  \
    calisto sim --from-pcap trace.pcap --service 5us         your own load on every policy: own-load\n  \
    calisto sim --from-record night.rec --service 5us        the same, of `calisto record`\n\n\
    A sweep on many machines, each with a part of its runs, into one folder:\n  \
    sbatch packaging/sweeps/slurm-array.sh    in a job array of Slurm; slurm-merge.sh afterwards\n  \
    parallel calisto sim --all --threads 1 --shard {}/16 ::: $(seq 16)\n  \
    kubectl apply -f packaging/sweeps/kubernetes-job.yaml     in an indexed job of Kubernetes\n  \
    calisto sim --all --merge                 afterwards: one file a figure, as if run at once")]
pub(crate) struct Sim {
    /// Figures by name, or files of scenarios, which end in .toml.
    #[arg(value_name = "FIGURE|FILE.toml", required_unless_present_any = ["all", "list", "settings", "from_pcap", "from_record"])]
    what: Vec<String>,
    /// Every figure that comes with the program.
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// Only say which figures there are.
    #[arg(long, conflicts_with_all = ["what", "all"])]
    list: bool,
    /// Only say what a scenario may hold: models, settings, ranges.
    #[arg(long, conflicts_with_all = ["what", "all", "list"])]
    settings: bool,
    /// Only print the scenario, to be changed.
    #[arg(long, conflicts_with_all = ["all", "list", "settings"])]
    print: bool,
    /// Where everything random comes from, instead of the scenario's own seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Only the i-th of n equal parts of the runs, such as 3/16.
    #[arg(long, value_name = "I/N", default_value = "1/1", hide_default_value = true)]
    shard: Shard,
    /// Put the parts that are in the folder together instead of running anything.
    #[arg(long, conflicts_with_all = ["shard", "seed", "quick", "runs"])]
    merge: bool,
    /// Runs at a time. [default: one for each CPU]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where results go.
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
    /// A tenth of everything and no bands: whether it works, not what it says.
    #[arg(long)]
    quick: bool,
    /// Runs of each point, each with a seed of its own: what a claim says must be so in most of
    /// them, beyond chance. [default: 10; with --quick 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(RUNS_MAX)),
    )]
    runs: Option<u32>,
    /// What things cost on your machine, as `calisto bench` found: a TOML file with a line for
    /// each, such as `wake = "21us"`. `--settings` lists them.
    #[arg(long, value_name = "FILE.toml")]
    costs: Option<PathBuf>,
    /// Say of each claim which costs it hangs on: each cost alone at either end of what was
    /// measured, in a run each.
    #[arg(long, conflicts_with_all = ["shard", "merge", "list", "settings", "print"])]
    tornado: bool,
    #[command(flatten)]
    source: Source,
}

/// A scenario, and how a person calls it.
struct Chosen {
    called: String,
    scenario: Arc<Scenario>,
}

impl Sim {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        if self.list {
            return list(json);
        }
        if self.settings {
            return settings(json);
        }
        if self.print {
            return self.what.iter().try_for_each(|name| output::text(&text_of(name)?));
        }
        if self.source.is_given() {
            return self.own(json);
        }
        // All are read before the first is run: a slip in the last one is told at once.
        let chosen = self.chosen()?;
        if self.merge {
            return chosen.iter().try_for_each(|one| self.merge(one, json));
        }
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        chosen.iter().try_for_each(|one| self.simulate(one, json))
    }

    fn chosen(&self) -> Result<Vec<Chosen>, Failure> {
        let all = library::SCENARIOS.iter().map(|(name, _)| (*name).to_owned());
        let names: Vec<String> = if self.all { all.collect() } else { self.what.clone() };
        let mut chosen: Vec<Chosen> = Vec::new();
        for called in names {
            let scenario = self.parse(&called)?;
            if let Some(twin) = chosen.iter().find(|one| one.scenario.name() == scenario.name()) {
                return Err(Failure::usage(format!(
                    "{} and {called} are both the figure {}, and would write the same file: give one another name",
                    twin.called,
                    scenario.name()
                )));
            }
            chosen.push(Chosen { called, scenario: Arc::new(scenario) });
        }
        Ok(chosen)
    }

    fn parse(&self, called: &str) -> Result<Scenario, Failure> {
        let costs = self.costs.as_deref().map(costs_of).transpose()?.unwrap_or_default();
        Scenario::parse_with(&text_of(called)?, &costs)
            .map_err(|error| Failure::new(format!("{called}: {error}")))
    }

    fn simulate(&self, one: &Chosen, json: bool) -> Result<(), Failure> {
        let Chosen { called, scenario } = one;
        let runs = self.runs.unwrap_or(if self.quick { 1 } else { RUNS });
        let mut lines = self.played(called, scenario, runs)?;
        if self.tornado {
            let mut tornado = Tornado::of(scenario);
            for pinned in tornado.runs() {
                let variant = Arc::new(self.parse(called)?.with_cost_at(pinned));
                tornado.add(scenario, &self.played(called, &variant, 1)?);
            }
            tornado.tell(&mut lines);
        }
        self.put(scenario.name(), self.shard, &lines, json)
    }

    /// The lines of a scenario that is run to its end.
    fn played(
        &self,
        called: &str,
        scenario: &Arc<Scenario>,
        runs: u32,
    ) -> Result<Vec<report::Line>, Failure> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let options = Options {
            seed: self.seed,
            shard: self.shard,
            threads: self.threads.map_or(cpus, usize::from),
            quick: self.quick,
            runs,
        };
        let failed = |error| Failure::new(format!("{called}: {error}"));
        let mut run = Run::start(Arc::clone(scenario), options).map_err(failed)?;
        let mut display = Display::new(scenario.name());
        while run.wait(LOOK).map_err(failed)? {
            display.show(run.progress());
            if sys::signal::stop_requested() {
                display.clear();
                return Err(Failure::new(format!(
                    "stopped: nothing of {} was written; what was done before is in {}",
                    scenario.name(),
                    self.output.display()
                )));
            }
        }
        display.clear();
        Ok(run.lines(&self.command(called)))
    }

    /// A load of one's own, on every policy.
    fn own(&self, json: bool) -> Result<(), Failure> {
        if self.all || self.merge || !self.what.is_empty() || !self.shard.is_whole() {
            return Err(Failure::usage(
                "a load of your own is a figure by itself: leave figures, --all, --merge and --shard \
                 away",
            ));
        }
        let how = How {
            seed: self.seed,
            runs: self.runs,
            threads: self.threads,
            costs: self.costs.as_deref().map(costs_of).transpose()?.unwrap_or_default(),
            quick: self.quick,
        };
        let load = self.source.load(None, how)?;
        let tried = load.run().map_err(Failure::new)?;
        let words = std::env::args().skip(1).map(|word| quoted(&word));
        let command = format!("calisto {}", words.collect::<Vec<_>>().join(" "));
        self.put(own_load::NAME, Shard::WHOLE, &load.lines(&tried, &command), json)
    }

    fn put(
        &self,
        figure: &str,
        shard: Shard,
        lines: &[report::Line],
        json: bool,
    ) -> Result<(), Failure> {
        let name = store::file_name(figure, shard);
        let path = store::write(&self.output, &name, lines).map_err(|error| {
            let folder = self.output.display();
            Failure::new(format!(
                "cannot write {name} to {folder}: {error}; -o names another folder"
            ))
        })?;
        if json {
            return output::text(&store::to_text(lines));
        }
        output::text(&text::of(lines))?;
        output::text(&format!("written to {}\n\n", path.display()))
    }

    fn merge(&self, Chosen { called, scenario }: &Chosen, json: bool) -> Result<(), Failure> {
        let failed = |what: String| Failure::new(format!("{called}: {what}"));
        let beginning = format!("{}.shard-", scenario.name());
        let cannot = |error: std::io::Error| failed(format!("{}: {error}", self.output.display()));
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&self.output).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // A pipe of that name would have us wait for ever.
            if name.starts_with(&beginning) && name.ends_with(".jsonl") && path.is_file() {
                paths.push(path);
            }
        }
        paths.sort();
        let lines = store::merge(scenario, &paths).map_err(|what| {
            failed(format!("{what} ({} parts in {})", paths.len(), self.output.display()))
        })?;
        self.put(scenario.name(), Shard::WHOLE, &lines, json)
    }

    /// What repeats a run.
    fn command(&self, called: &str) -> String {
        let seed = self.seed.map_or(String::new(), |seed| format!(" --seed {seed}"));
        let quick = if self.quick { " --quick" } else { "" };
        let runs = self.runs.map_or(String::new(), |runs| format!(" --runs {runs}"));
        let costs = self
            .costs
            .as_ref()
            .map_or(String::new(), |path| format!(" --costs {}", quoted(&path.to_string_lossy())));
        let tornado = if self.tornado { " --tornado" } else { "" };
        let shard =
            if self.shard.is_whole() { String::new() } else { format!(" --shard {}", self.shard) };
        format!("calisto sim {}{seed}{quick}{runs}{costs}{tornado}{shard}", quoted(called))
    }
}

/// A name as a shell takes it for one word.
fn quoted(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./+,:@%".contains(letter);
    if name.chars().all(is_plain) && !name.starts_with('-') {
        return name.to_owned();
    }
    // Within these marks nothing has a meaning but the mark itself.
    let dash = if name.starts_with('-') { "./" } else { "" };
    format!("'{dash}{}'", name.replace('\'', "'\\''"))
}

/// What things cost on another machine.
pub(super) fn costs_of(path: &Path) -> Result<Costs, Failure> {
    let called = path.display();
    let text = text_of_file(path, "the costs")?;
    Costs::parse(&text).map_err(|says| Failure::new(format!("{called}: {says}")))
}

/// The text of a figure that comes with the program, or of a file.
fn text_of(called: &str) -> Result<String, Failure> {
    if Path::new(called).extension().is_none_or(|extension| extension != "toml") {
        let found = library::SCENARIOS.iter().find(|(name, _)| *name == called);
        return match found {
            Some((_, text)) => Ok((*text).to_owned()),
            None => Err(Failure::usage(library::find(called).err().unwrap_or_default())),
        };
    }
    text_of_file(Path::new(called), "the scenario")
}

fn text_of_file(path: &Path, what: &str) -> Result<String, Failure> {
    let called = path.display();
    sys::regular_file::read_text(path, SCENARIO_BYTES_MAX)
        .map_err(|error| Failure::new(format!("cannot read {what} {called}: {error}")))
}

fn settings(json: bool) -> Result<(), Failure> {
    if !json {
        return output::text(&manual::text());
    }
    let models = manual::models();
    output::json(&serde_json::json!({ "schema_version": report::SCHEMA_VERSION, "models": models }))
}

fn list(json: bool) -> Result<(), Failure> {
    let mut table = Table::new(["figure", "runs", "what it is"]);
    for (name, _) in library::SCENARIOS {
        let scenario = library::find(name).map_err(Failure::new)?;
        if json {
            output::json(&serde_json::json!({
                "schema_version": report::SCHEMA_VERSION,
                "figure": name,
                "runs": scenario.job_count(),
                "title": scenario.title(),
            }))?;
        }
        table.row([(*name).into(), (scenario.job_count() as u64).into(), scenario.title().into()]);
    }
    if json { Ok(()) } else { output::text(&table.render()) }
}

#[cfg(test)]
mod tests;
