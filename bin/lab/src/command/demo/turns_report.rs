//! Lines of JSON about servers that have taken turns.

use cli::failure::Failure;
use cli::output;
use serde::Serialize;

/// One server, for a script.
#[derive(Serialize)]
struct Row<'a, T> {
    act: &'static str,
    port: &'a str,
    connections: u32,
    #[serde(flatten)]
    shown: &'a T,
}

/// Prints an act, a line for what each server has shown.
pub(super) fn rows<T: Serialize>(
    act: &'static str,
    port: &str,
    connections: u32,
    shown: [&T; 2],
) -> Result<(), Failure> {
    let row = |shown| Row { act, port, connections, shown };
    shown.into_iter().try_for_each(|shown| output::json(&row(shown)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_a_line_is_at_the_top() {
        #[derive(Serialize)]
        struct Shown {
            server: &'static str,
            requests_per_s: f64,
        }

        let shown = Shown { server: "calisto", requests_per_s: 150_000.0 };
        let row = Row { act: "tcp", port: "xdp:veth0", connections: 64, shown: &shown };
        let row = serde_json::to_value(row).expect("plain values");
        assert_eq!((&row["act"], &row["connections"]), (&"tcp".into(), &64.into()));
        assert_eq!(
            (&row["server"], &row["requests_per_s"]),
            (&"calisto".into(), &150_000.0.into())
        );
    }
}
