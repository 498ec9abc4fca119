//! `reasons.md`: why a socket stays with the kernel, why a program does, why an application is
//! gone.

use attach::{DetachReason, FallbackReason};
use shm::ProtocolViolation;

use super::{GENERATED, Table, holds};
use cli::{Flaw, Obstacle};

#[test]
fn reasons() {
    let mut page = format!("# Reasons\n\n{GENERATED}");
    let mut add = |title: &str, about: &str, table: &Table| {
        page.push_str(&format!("\n## {title}\n\n{about}\n\n{}", table.0));
    };
    let mut table = Table::new(&["reason", "because"]);
    for reason in FallbackReason::ALL {
        table.row(&[&format!("`{}`", reason.word()), reason.sentence()]);
    }
    let about = "The program says it once; `calisto explain PID` says it of each socket, and the daemon\n\
                 counts each reason.";
    add("Why a socket stays with the kernel", about, &table);

    let mut table = Table::new(&["reason", "because"]);
    for obstacle in obstacles() {
        table.row(&[&format!("`{}`", obstacle.word()), &obstacle.to_string()]);
    }
    let about = "`calisto run -n -- ./server` says it without running the program.";
    add("Why a whole program stays with the kernel", about, &table);

    let mut table = Table::new(&["reason", "because"]);
    for number in 1.. {
        let reason = DetachReason::from_number(number).expect("zero alone is none");
        if reason == DetachReason::Other {
            break;
        }
        let word = serde_json::to_value(reason).expect("a word");
        table.row(&[&format!("`{}`", word.as_str().unwrap_or_default()), reason.sentence()]);
    }
    let about = "What an application is told. `calisto apps` uses the same words, with `died` for a process\n\
                 that has ended and `daemon_ends` for `stopping`.";
    add("Why an application is detached", about, &table);

    let mut table = Table::new(&["violation", "what it did"]);
    for violation in [
        ProtocolViolation::RingIndex,
        ProtocolViolation::Message,
        ProtocolViolation::Buffer,
        ProtocolViolation::NotHeld,
    ] {
        table.row(&[&format!("`{}`", violation.name()), violation.help()]);
    }
    let about = "What the daemon found in the shared memory of an application in packet mode.";
    add("Protocol violations", about, &table);
    holds("reasons.md", &page);
}

fn obstacles() -> Vec<Obstacle> {
    let flaws = [
        Flaw::Static,
        Flaw::StaticPie,
        Flaw::Go,
        Flaw::Musl,
        Flaw::OtherLoader("LOADER".to_owned()),
        Flaw::Bits32,
        Flaw::OtherMachine("MACHINE".to_owned()),
        Flaw::SetUser,
        Flaw::SetGroup,
        Flaw::Capabilities,
        Flaw::Malformed("WHY".to_owned()),
        Flaw::Unreadable("WHY".to_owned()),
    ];
    let mut all = vec![
        Obstacle::NoLibrary(vec!["FOLDER".into()]),
        Obstacle::LibraryPath("LIBRARY".into()),
        Obstacle::Daemon("the daemon cannot be reached".to_owned()),
    ];
    all.extend(flaws.map(|flaw| Obstacle::File("PROGRAM".into(), flaw)));
    all
}
