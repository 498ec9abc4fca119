//! `calisto top`: the daemon, live: who holds which core, what flows, what waits, what is dropped.
//!
//! Looks at the daemon (`look.rs`) become views (`model.rs`), and views become screens (`draw.rs`),
//! both by pure functions; `screen.rs` is the only file that knows a terminal.

mod draw;
mod look;
mod model;
mod rate;
mod screen;
mod text;
mod view;
mod view_state;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use base::Nanos;
use clap::Args;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::look::look;
use self::model::Model;
use self::view::View;
use self::view_state::ViewState;
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::target::Admin;
use crate::{output, units};

/// Watch the daemon live: cores and who holds them, applications, waiting, drops.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto top                                           q leaves, ? explains the keys\n  \
    calisto top --interval 200ms\n  \
    calisto top --once | less\n  \
    calisto top -j --count 60 >minute.jsonl")]
pub(crate) struct Top {
    /// Time between two looks at the daemon, 100ms to 60s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Nanos,
    /// Print one screen as text, after two looks, and end.
    #[arg(long)]
    once: bool,
    /// End after this many screens, or lines of JSON.
    #[arg(long, value_name = "N", conflicts_with = "once")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    admin: Admin,
}

/// The width of a screen that is printed into something that has none.
const PRINTED_WIDTH: u16 = 120;
/// The lines of a screen that is printed, at most.
const PRINTED_LINES_MAX: u16 = 1000;

/// Shorter than 100 ms, the daemon would be asked more than a person can see.
fn interval(text: &str) -> Result<Nanos, String> {
    let interval = units::duration(text)?;
    if (Nanos::from_millis(100)..=Nanos::from_secs(60)).contains(&interval) {
        Ok(interval)
    } else {
        Err("from 100ms to 60s".to_owned())
    }
}

impl Top {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        let every = Duration::from_nanos(self.interval.0);
        match (json, self.once) {
            (true, true) => return print_lines(&daemon, every, Some(1)),
            (true, false) => return print_lines(&daemon, every, self.count),
            (false, true) => return print_once(&daemon, every),
            (false, false) => {}
        }
        if !std::io::stdout().is_terminal() {
            return Err(Failure::usage(
                "standard output is no terminal: ask for one screen as text with --once, or for \
                 lines of JSON with -j",
            ));
        }
        let began = Instant::now();
        // Without a daemon to begin with there is nothing to show.
        let first = look(&daemon, began)?;
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        screen::show(first, &look::looks(daemon, began, every), every, self.count)
    }
}

/// A line of JSON for each interval, until there were `count` or somebody ends it.
fn print_lines(daemon: &Daemon, every: Duration, count: Option<u64>) -> Result<(), Failure> {
    let (began, mut model) = (Instant::now(), Model::default());
    model.take(look(daemon, began)?);
    let mut printed = 0;
    while count.is_none_or(|count| printed < count) {
        std::thread::sleep(every);
        // The rates of this one are known.
        output::json(&model.take(look(daemon, began)?))?;
        printed += 1;
    }
    Ok(())
}

/// A screen as text.
fn print_once(daemon: &Daemon, every: Duration) -> Result<(), Failure> {
    let (began, mut model) = (Instant::now(), Model::default());
    model.take(look(daemon, began)?);
    std::thread::sleep(every);
    let view = model.take(look(daemon, began)?);
    let width = match ratatui::crossterm::terminal::size() {
        Ok((width, _)) if std::io::stdout().is_terminal() => width,
        _ => PRINTED_WIDTH,
    };
    output::text(&printed(&view, width))
}

/// A screen of the view that cuts nothing off at its end.
fn printed(view: &View, width: u16) -> String {
    let (least_width, least_height) = draw::SMALLEST;
    let width = width.max(least_width);
    let height = draw::height(view, width).clamp(least_height, PRINTED_LINES_MAX);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    let view_state = ViewState { printed: true, ..ViewState::default() };
    draw::draw(view, &view_state, area, &mut buffer);
    text::of_buffer(&buffer)
}
