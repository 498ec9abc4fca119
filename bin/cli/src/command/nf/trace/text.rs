//! A trace for people.

use chain::trace::{Decided, End, Step, Trace, Way};

/// The way of one packet, a function a line.
pub(super) fn render(trace: &Trace) -> String {
    let Trace { number, port, port_because, packet, filter, is_taken, ways, .. } = trace;
    let mut text = format!("packet {number} by {port} ({port_because}): {packet}\n");
    let filter = filter.as_deref().unwrap_or_default();
    if *is_taken == Some(false) {
        text.push_str(&format!("  left to the kernel: the chain takes {filter}\n\n"));
        return text;
    }
    for (at, way) in ways.iter().enumerate() {
        if at > 0 {
            let again = if ways[at - 1].end == End::Waits { "goes on" } else { "and" };
            text.push_str(&format!("  {again}: {}\n", way.packet));
        }
        render_way(&mut text, way);
    }
    text.push('\n');
    text
}

fn render_way(text: &mut String, way: &Way) {
    for step in &way.steps {
        text.push_str(&render_step(step));
        if let Some(packet) = &step.packet {
            text.push_str(&format!("       now {packet}\n"));
        }
    }
    for asked in &way.asked {
        let (address, port) = (asked.address, &asked.port);
        text.push_str(&match &asked.assumed {
            Some(mac) => {
                format!("     {address} by {port} is asked for, and taken to be at {mac}\n")
            }
            None => format!("     {address} by {port} is asked for, and did not answer before\n"),
        });
    }
    text.push_str(&match &way.end {
        End::Leaves(port) => format!("  leaves by {port}\n"),
        End::Dropped(function) => format!("  dropped by {function}\n"),
        End::Waits => "  waits\n".to_owned(),
        End::Undecided => "  dropped: no function decided about it\n".to_owned(),
    });
}

/// `   2 router     leaves by eth2   forwarded 1`.
fn render_step(step: &Step) -> String {
    let Step { place, function, is_leaving, verdict, counters, .. } = step;
    let verdict = match verdict {
        Decided::Next => "next".to_owned(),
        Decided::Leaves(port) => format!("leaves by {port}"),
        Decided::Drop => "drop".to_owned(),
    };
    let name = if *is_leaving { format!("{function}, leaving") } else { (*function).to_owned() };
    let counters: Vec<String> = counters
        .iter()
        .map(|moved| match moved.by {
            1 => moved.name.clone(),
            by => format!("{} {by}", moved.name),
        })
        .collect();
    let line = format!("  {place:>2} {name:<18} {verdict:<16} {}", counters.join(", "));
    format!("{}\n", line.trim_end())
}
