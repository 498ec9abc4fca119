//! The terminal: takes it over, draws on it, hears its keys, and gives it back as it was.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use base::{Nanos, printable};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal::window_size;

use super::draw::draw;
use super::look::{Answer, Look};
use super::model::Model;
use super::view::View;
use super::view_state::{Press, ViewState};
use crate::failure::Failure;

/// A look is noticed within this time; a key, a resize or a signal at once.
const PAUSE: Nanos = Nanos::from_millis(50);
/// A daemon that is silent for this long besides the interval is said to be.
const SILENCE: Duration = Duration::from_secs(2);
/// Letters of a sentence about what is wrong, at most.
const TROUBLE_CHARS_MAX: usize = 300;

/// Shows one view after another until somebody leaves, or until there were `count`.
pub(super) fn show(
    first: Look,
    looks: &Receiver<Answer>,
    every: Duration,
    count: Option<u64>,
) -> Result<(), Failure> {
    // The terminal is given back when this drops, and by its hook before a panic is told.
    let mut screen = Screen::take().map_err(|error| cannot("take over", &error))?;
    let shown = watch(&mut screen, first, looks, every, count);
    drop(screen);
    shown.map_err(|error| cannot("draw on", &error))
}

fn cannot(what: &str, error: &io::Error) -> Failure {
    Failure::new(format!(
        "cannot {what} the terminal: {error}; --once and -j need none (see `calisto top --help`)"
    ))
}

/// The terminal while it is ours.
struct Screen {
    terminal: DefaultTerminal,
    /// Readable when a key was pressed.
    keys: OwnedFd,
}

impl Screen {
    fn take() -> io::Result<Self> {
        // Where ratatui reads them, too.
        let stdin = io::stdin();
        let keys = match stdin.is_terminal() {
            true => stdin.as_fd().try_clone_to_owned()?,
            false => File::open("/dev/tty")?.into(),
        };
        // The first poll begins to listen for resizes: before the first look at the size, so that
        // none is missed.
        let taken = ratatui::try_init().and_then(|terminal| {
            event::poll(Duration::ZERO)?;
            Ok(Self { terminal, keys })
        });
        if taken.is_err() {
            // It may be half taken.
            let _ = ratatui::try_restore();
        }
        taken
    }

    fn draw(&mut self, view: &View, view_state: &ViewState) -> io::Result<()> {
        self.terminal.draw(|frame| draw(view, view_state, frame.area(), frame.buffer_mut()))?;
        Ok(())
    }

    /// Sleeps until a key, a signal or the end of the pause.
    fn pause(&self) -> io::Result<()> {
        if sys::poll::wait_readable(self.keys.as_fd(), PAUSE) {
            // A terminal that was hung up is readable for ever, and whoever tries to get a key of
            // it never returns.
            window_size()?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The hook has done it before a panic was told: a second time, what was told is written
        // over.
        if !std::thread::panicking() {
            // A terminal that has gone needs nothing any more.
            let _ = self.terminal.show_cursor();
            let _ = ratatui::try_restore();
        }
    }
}

fn watch(
    screen: &mut Screen,
    first: Look,
    looks: &Receiver<Answer>,
    every: Duration,
    count: Option<u64>,
) -> io::Result<()> {
    let (mut model, mut view_state) = (Model::default(), ViewState::default());
    let mut view = model.take(first);
    let (mut heard, mut views) = (Instant::now(), 0);
    let mut stale = true;
    while !sys::signal::stop_requested() {
        while let Ok(answer) = looks.try_recv() {
            heard = Instant::now();
            match answer {
                Ok(look) => {
                    let latest = model.take(look);
                    view_state.trouble = None;
                    if !view_state.paused {
                        (view, stale) = (latest, true);
                        views += 1;
                    }
                }
                Err(failure) => {
                    let sentence = format!("lost, trying again: {failure}");
                    stale |= is_new(&mut view_state, sentence);
                }
            }
        }
        if heard.elapsed() > every + SILENCE {
            let seconds = heard.elapsed().as_secs();
            let sentence = format!("the daemon has not answered for {seconds} s, still waiting");
            stale |= is_new(&mut view_state, sentence);
        }
        if std::mem::take(&mut stale) {
            screen.draw(&view, &view_state)?;
        }
        if count.is_some_and(|count| views >= count) {
            return Ok(());
        }
        screen.pause()?;
        while event::poll(Duration::ZERO)? && !sys::signal::stop_requested() {
            match event::read()? {
                Event::Key(key) => match view_state.press(key) {
                    Press::Quit => return Ok(()),
                    Press::Changed => stale = true,
                    Press::Ignored => {}
                },
                Event::Resize(..) => stale = true,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Says what is wrong; whether it was something else before.
fn is_new(view_state: &mut ViewState, sentence: String) -> bool {
    let sentence = printable(&sentence, TROUBLE_CHARS_MAX);
    if view_state.trouble.as_ref() == Some(&sentence) {
        return false;
    }
    view_state.trouble = Some(sentence);
    true
}
