//! `docs/reference/options.md`: the table for people.

use std::fmt::Write as _;
use std::path::Path;

use super::{LEVELS, Treatment};

const HEAD: &str = "\
<!-- Generated from crates/programs/preload/src/calls/option_table.rs:
`REFERENCE=write cargo test -p preload option_table` writes it anew. -->

# Socket options

Every option that Linux has for TCP and UDP sockets, and what becomes of it on a socket that Calisto
serves. `cargo test -p whole options::` sets and reads each of them on Linux and on Calisto, on
sockets of each kind, early and late, and compares what the calls say.

| word | means |
|---|---|
| carried out | by the data plane |
| kernel | the kernel's half of the socket carries it out, or it is about nothing that such a socket does |
| told | taken, and told by getsockopt(2); asks for speed, or for what accelerated packets have no place for |
| early | given before connect(2), listen(2) or the port, it leaves the socket to the kernel, for which the reason is `unsupported_option`; later it comes too late, as in Linux |
| falls back | the socket is the kernel's from then on (`unsupported_option`); an accelerated connection cannot be, and the call fails with ENOPROTOOPT |
| refused | the call fails, as on a kernel that was built without it |

What is switched off, or set to what Linux does by default, is taken in every case. An option that is
not in the table is of a kernel that is younger than it, and falls back.
";

fn word(treatment: Treatment) -> &'static str {
    match treatment {
        Treatment::Carried => "carried out",
        Treatment::Kernel => "kernel",
        Treatment::Told => "told",
        Treatment::Early => "early",
        Treatment::Falls => "falls back",
        Treatment::Refused => "refused",
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for level in LEVELS {
        let number = level.number;
        write!(page, "\n## {} ({number})\n\n", level.name).expect("memory");
        page.push_str("| number | option | TCP | UDP | |\n|---|---|---|---|---|\n");
        for row in level.rows {
            let (stream, datagram) = (word(row.stream), word(row.datagram));
            writeln!(
                page,
                "| {} | {} | {stream} | {datagram} | {} |",
                row.number, row.name, row.why
            )
            .expect("memory");
        }
    }
    page
}

#[test]
fn the_page_of_options_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/options.md");
    let page = page();
    if std::env::var_os("REFERENCE").is_some_and(|what| what == "write") {
        std::fs::write(&path, &page).expect("the folder is there");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let same = written.lines().zip(page.lines()).take_while(|(a, b)| a == b).count();
    assert!(
        written == page,
        "docs/reference/options.md is out of date from line {} on: run \
         `REFERENCE=write cargo test -p preload option_table`",
        same + 1
    );
}
