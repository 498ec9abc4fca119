//! How the view is shown, and what a key changes about it.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::view::App;

/// How the view is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ViewState {
    pub(super) order: Order,
    /// The view stays as it is.
    pub(super) paused: bool,
    /// The keys are explained over the view.
    pub(super) help: bool,
    /// Why the view is an old one.
    pub(super) trouble: Option<String>,
    /// Nobody can press a key: the view is text that stays.
    pub(super) printed: bool,
}

/// What the shell has to do about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Press {
    /// Nothing.
    Ignored,
    /// Draw again.
    Changed,
    /// Leave.
    Quit,
}

impl ViewState {
    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Press {
        if key.kind == KeyEventKind::Release {
            return Press::Ignored;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            // The terminal is raw: Ctrl-C is a key like others.
            KeyCode::Char('c') if control => return Press::Quit,
            KeyCode::Char('q') => return Press::Quit,
            // First what covers the view, then the program.
            _ if self.help => self.help = false,
            KeyCode::Esc => return Press::Quit,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('?' | 'h') => self.help = true,
            _ => return Press::Ignored,
        }
        Press::Changed
    }
}

/// By what the applications are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Packets a second, the most first.
    #[default]
    Packets,
    /// How long their oldest item has waited, the longest first.
    Delay,
    /// Cores that they hold, the most first.
    Cores,
    /// Their names.
    Name,
}

impl Order {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Delay => "delay",
            Self::Cores => "cores",
            Self::Name => "name",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Packets => Self::Delay,
            Self::Delay => Self::Cores,
            Self::Cores => Self::Name,
            Self::Name => Self::Packets,
        }
    }

    /// Which of two applications comes first; equal ones by number, so that no row jumps.
    pub(super) fn compare(self, one: &App, other: &App) -> Ordering {
        let delay = |app: &App| app.cores.as_ref().map_or(-1.0, |cores| cores.oldest_us);
        let held = |app: &App| app.cores.as_ref().map(|cores| cores.held);
        let packets = |app: &App| app.packets_per_s.unwrap_or(-1.0);
        let order = match self {
            Self::Packets => packets(other).total_cmp(&packets(one)),
            Self::Delay => delay(other).total_cmp(&delay(one)),
            Self::Cores => held(other).cmp(&held(one)),
            Self::Name => one.name.cmp(&other.name),
        };
        order.then(one.number.cmp(&other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view_state: &mut ViewState, code: KeyCode) -> Press {
        view_state.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn q_escape_and_control_c_leave() {
        let mut view_state = ViewState::default();
        assert_eq!(press(&mut view_state, KeyCode::Char('q')), Press::Quit);
        assert_eq!(press(&mut view_state, KeyCode::Esc), Press::Quit);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        view_state.help = true;
        assert_eq!(view_state.press(control_c), Press::Quit);
        assert_eq!(press(&mut view_state, KeyCode::Char('c')), Press::Changed);
        assert_eq!(press(&mut view_state, KeyCode::Char('c')), Press::Ignored, "without control");
    }

    #[test]
    fn any_key_takes_the_help_away_and_does_nothing_else() {
        let mut view_state = ViewState::default();
        assert_eq!(press(&mut view_state, KeyCode::Char('?')), Press::Changed);
        assert!(view_state.help);
        assert_eq!(press(&mut view_state, KeyCode::Esc), Press::Changed);
        assert_eq!(view_state, ViewState::default());
    }

    #[test]
    fn p_pauses_and_goes_on_and_s_goes_round_the_orders() {
        let mut view_state = ViewState::default();
        press(&mut view_state, KeyCode::Char('p'));
        assert!(view_state.paused);
        press(&mut view_state, KeyCode::Char('p'));
        assert!(!view_state.paused);
        let mut names = Vec::new();
        for _ in 0..4 {
            press(&mut view_state, KeyCode::Char('s'));
            names.push(view_state.order.name());
        }
        assert_eq!(names, ["delay", "cores", "name", "packets"]);
    }

    #[test]
    fn a_key_that_is_let_go_does_nothing() {
        let mut view_state = ViewState::default();
        let mut key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        key.kind = KeyEventKind::Release;
        assert_eq!(view_state.press(key), Press::Ignored);
    }
}
