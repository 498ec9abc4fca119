//! The first lines: which daemon this is, what decides, and how it was lately.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{RenderDirection, Sparkline, Widget};

use super::figure::{micros, quantity, rate, share};
use super::grid::{DIM, HEAD, row_of};
use crate::command::status::uptime;
use crate::command::top::rate::History;
use crate::command::top::view::View;
use crate::command::top::view_state::ViewState;
use crate::table::grouped;

/// Columns of what stands before a graph.
const LABEL: u16 = 28;

/// Draws two lines: who and what, or what is wrong.
pub(super) fn draw_title(area: Rect, buffer: &mut Buffer, view: &View, view_state: &ViewState) {
    let width = usize::from(area.width);
    let mut title =
        format!("calisto {}, process {}, up {}", view.version, view.pid, uptime(view.uptime_s));
    match view.restarts {
        0 => {}
        1 => title += ", started again once",
        times => title += &format!(", started again {times} times"),
    }
    buffer.set_stringn(area.x, area.y, title, width, HEAD);
    if view_state.paused {
        let style = Style::new().fg(Color::Yellow).add_modifier(Modifier::REVERSED);
        let x = area.right().saturating_sub(8).max(area.x);
        buffer.set_stringn(x, area.y, " PAUSED ", width, style);
    }
    let area = row_of(area, 1);
    if let Some(trouble) = &view_state.trouble {
        let style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        buffer.set_stringn(area.x, area.y, trouble, width, style);
        return;
    }
    let mut what = format!("steering {}, job {}", view.policy, view.job);
    if let Some(cores) = &view.cores {
        what += &format!(
            ", cores {} every {} us (a tick takes {} us)",
            cores.policy,
            micros(cores.interval_ns),
            micros(cores.tick_cost_ns)
        );
    }
    buffer.set_stringn(area.x, area.y, what, width, Style::new());
}

/// Draws a line about the dispatcher: how it waits, and the frames that it has left.
pub(super) fn draw_dispatcher(area: Rect, buffer: &mut Buffer, view: &View) {
    let mut what = String::new();
    if let Some(dispatcher) = view.threads.first() {
        what = format!(
            "{} {}: {} turns/s, spins {}; ",
            dispatcher.name,
            dispatcher.waiting.unwrap_or("-"),
            rate(dispatcher.turns_per_s),
            share(dispatcher.spin_share)
        );
    }
    what += &format!(
        "frames {} of {} free",
        grouped(u64::from(view.frames_free)),
        grouped(u64::from(view.frames))
    );
    buffer.set_stringn(area.x, area.y, what, usize::from(area.width), Style::new());
}

/// Draws the graph of packets a second, as high as the area.
pub(super) fn draw_packets(area: Rect, buffer: &mut Buffer, view: &View) {
    let label = format!("received/s {:>11}", rate(view.received_per_s));
    let under = format!("sent/s     {:>11}", rate(view.sent_per_s));
    draw_graph(area, buffer, [&label, &under], &view.received_history, None);
}

/// Draws the graph of cores in use, as high as the area.
pub(super) fn draw_cores_used(area: Rect, buffer: &mut Buffer, view: &View) {
    let Some(cores) = &view.cores else {
        let none = "cores: none are given out (`cores.set` of the configuration)";
        buffer.set_stringn(area.x, area.y, none, usize::from(area.width), DIM);
        return;
    };
    let label = format!("cores in use {:>3} of {:>3}", cores.used, cores.rows.len());
    draw_graph(area, buffer, [&label, ""], &view.cores_history, Some(cores.rows.len() as f64));
}

/// Draws how often cores change hands.
pub(super) fn draw_moves(area: Rect, buffer: &mut Buffer, view: &View) {
    let Some(cores) = &view.cores else { return };
    let moves = [
        ("grants/s", cores.grants_per_s),
        ("parks/s", cores.parks_per_s),
        ("revokes/s", cores.revokes_per_s),
        ("takes/s", cores.takes_per_s),
    ];
    let mut x = area.x;
    for (name, value) in moves {
        let text = format!("{name} {}", rate(value));
        let left = area.right().saturating_sub(x);
        if usize::from(left) < text.len() {
            return;
        }
        let (after, _) = buffer.set_stringn(x, area.y, text, usize::from(left), Style::new());
        x = after + 3;
    }
}

/// A label and the latest values, the latest one at the right; `full` is what fills the height,
/// without it the largest value that is shown.
fn draw_graph(
    area: Rect,
    buffer: &mut Buffer,
    label: [&str; 2],
    history: &History,
    full: Option<f64>,
) {
    for (index, text) in (0..area.height).zip(label) {
        let place = row_of(area, index);
        buffer.set_stringn(place.x, place.y, text, usize::from(place.width), Style::new());
    }
    let bars =
        Rect { x: area.x + LABEL.min(area.width), width: area.width.saturating_sub(LABEL), ..area };
    // Bars are whole numbers: a thousandth of a packet is nothing to see.
    let whole = |value: f64| (value * 1e3).round() as u64;
    let values: Vec<u64> = history.latest(usize::from(bars.width)).map(whole).collect();
    let most = full.map_or_else(|| values.iter().copied().max().unwrap_or(0), whole);
    if area.height > 2 {
        let peak = format!("at most {:>14}", quantity(most as f64 / 1e3));
        let place = row_of(area, 2);
        buffer.set_stringn(place.x, place.y, peak, usize::from(place.width), DIM);
    }
    Sparkline::default()
        .data(values)
        .max(most.max(1))
        .direction(RenderDirection::RightToLeft)
        .style(Style::new().fg(Color::Cyan))
        .render(bars, buffer);
}
