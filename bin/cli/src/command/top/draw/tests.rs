//! Screens of fixed views, compared letter by letter with those in `snapshots/`.
//!
//! `CALISTO_SNAPSHOTS=write cargo test -p calisto` writes them anew; look at what has changed.

use std::path::PathBuf;

use super::*;
use crate::command::top::rate::History;
use crate::command::top::text::of_buffer;
use crate::command::top::view::{AppCores, Core, Cores, Loss, SCHEMA_VERSION, Thread};
use crate::command::top::view_state::Order;

fn app(number: u32, name: &str, state: &str, packets_per_s: f64, cores: Option<AppCores>) -> App {
    App {
        number,
        name: name.to_owned(),
        state: state.to_owned(),
        sockets: None,
        packets_per_s: Some(packets_per_s),
        queued: u64::from(number) * 40,
        workers: 2,
        asleep: 0,
        cores,
    }
}

fn app_cores(class: &str, held: u16, guaranteed: u16, burst: u16, oldest_us: f64) -> AppCores {
    AppCores {
        class: class.to_owned(),
        held,
        guaranteed,
        burst,
        parked: burst - held,
        oldest_us,
        grants_per_s: Some(1200.0 * f64::from(held)),
        parks_per_s: Some(1100.0),
        revokes_per_s: Some(99.5),
        takes_per_s: Some(0.0),
    }
}

fn core(core: u16, state: &str, holder: Option<(u32, &str, u16)>, next: Option<&str>) -> Core {
    Core {
        core,
        state: state.to_owned(),
        app: holder.map(|(app, ..)| app),
        app_name: holder.map(|(_, name, _)| name.to_owned()),
        worker: holder.map(|(.., worker)| worker),
        next: next.map(str::to_owned),
    }
}

fn loss(place: &str, name: &str, per_s: f64, total: u64) -> Loss {
    Loss { place: place.to_owned(), name: name.to_owned(), per_s, total }
}

/// A busy daemon with six cores and four applications.
fn view() -> View {
    let (mut received_history, mut cores_history) = (History::default(), History::default());
    for step in 0..150_u32 {
        received_history.push(f64::from((step * 37) % 100) * 12_345.0);
        cores_history.push(f64::from(step % 6));
    }
    View {
        schema_version: SCHEMA_VERSION,
        seconds: 1.0,
        restarts: 0,
        version: "0.1.0".to_owned(),
        pid: 4711,
        uptime_s: 3_700.0,
        arrangement: "threads".to_owned(),
        job: "echo".to_owned(),
        policy: "sticky".to_owned(),
        frames: 4096,
        frames_free: 4000,
        received_per_s: Some(1_234_567.0),
        sent_per_s: Some(1_200_000.4),
        cores: Some(Cores {
            policy: "queue_delay".to_owned(),
            interval_ns: 5000,
            tick_cost_ns: 310,
            used: 5,
            rows: vec![
                core(1, "held", Some((3, "web", 0)), None),
                core(2, "held", Some((3, "web", 1)), None),
                core(3, "leaving", Some((9, "matrix", 0)), Some("web")),
                core(4, "held", Some((9, "matrix", 1)), None),
                core(5, "leaving", Some((7, "an-application-of-a-long-name", 12)), None),
                core(6, "idle", None, None),
            ],
            grants_per_s: Some(12_345.0),
            parks_per_s: Some(12_340.0),
            revokes_per_s: Some(5.25),
            takes_per_s: Some(0.0),
        }),
        apps: vec![
            app(0, "calistod", "parked", 0.0, Some(app_cores("latency", 0, 1, 2, 0.0))),
            app(3, "web", "wants more", 900_000.0, Some(app_cores("latency", 2, 1, 4, 14.5))),
            app(7, "an-application-of-a-long-name", "runs", 300_000.0, {
                Some(app_cores("latency", 1, 1, 1, 120.0))
            }),
            app(9, "matrix", "runs", 0.0, Some(app_cores("batch", 2, 0, 6, 0.0))),
            app(12, "dns", "asleep", 34_567.0, None),
        ],
        threads: vec![
            thread("dispatcher", 250_000.0, Some(0.934), "polls"),
            thread("worker 0", 0.0, None, "sleeps"),
            thread("worker 1", 90_000.0, Some(0.01), "busy"),
        ],
        losses: vec![
            loss("app web (3)", "drop_app_no_buffer", 1500.0, 98_765),
            loss("dispatcher", "not_ours_arp", 2.0, 120),
            loss("xdp:veth0", "rx_fill_empty", 0.5, 3),
            loss("cores", "ran_while_parked", 0.25, 1),
        ],
        received_history,
        cores_history,
    }
}

fn thread(name: &str, turns: f64, spin_share: Option<f64>, waiting: &'static str) -> Thread {
    Thread { name: name.to_owned(), turns_per_s: Some(turns), spin_share, waiting: Some(waiting) }
}

fn drawn(view: &View, view_state: &ViewState, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(view, view_state, area, &mut buffer);
    of_buffer(&buffer)
}

/// Compares with the snapshot of that name.
fn assert_snapshot(name: &str, screen: &str) {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "src/command/top/snapshots"].iter().collect();
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os("CALISTO_SNAPSHOTS").is_some_and(|what| what == "write") {
        std::fs::write(&path, screen).expect("the folder is in the project");
    }
    let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        screen == snapshot,
        "{name} is drawn otherwise; if it should be, CALISTO_SNAPSHOTS=write\n{screen}"
    );
}

#[test]
fn a_busy_daemon_on_a_usual_terminal() {
    assert_snapshot("80x24", &drawn(&view(), &ViewState::default(), 80, 24));
}

#[test]
fn a_busy_daemon_on_a_large_terminal() {
    assert_snapshot("200x50", &drawn(&view(), &ViewState::default(), 200, 50));
}

#[test]
fn the_smallest_terminal_still_shows_who_has_cores() {
    assert_snapshot("40x10", &drawn(&view(), &ViewState::default(), 40, 10));
}

#[test]
fn many_cores_are_a_letter_each() {
    let mut many = view();
    let cores = many.cores.as_mut().expect("it has some");
    cores.rows = (0..128)
        .map(|number| match number % 5 {
            0 => core(number, "idle", None, None),
            1 => core(number, "leaving", Some((9, "matrix", number)), Some("web")),
            2 => core(number, "held", Some((777, "a stranger", number)), None),
            _ => core(number, "held", Some((3, "web", number)), None),
        })
        .collect();
    cores.used = 102;
    assert_snapshot("80x24-128-cores", &drawn(&many, &ViewState::default(), 80, 24));
}

#[test]
fn a_daemon_that_gives_out_no_cores_shows_everything_else() {
    let mut none = view();
    none.cores = None;
    for app in &mut none.apps {
        app.cores = None;
    }
    none.losses.clear();
    assert_snapshot("80x24-no-cores", &drawn(&none, &ViewState::default(), 80, 24));
}

#[test]
fn a_daemon_that_has_gone_is_said_to_be_and_its_last_view_stays() {
    let trouble = Some("lost, trying again: no daemon listens at /run/x.sock".to_owned());
    let view_state = ViewState { trouble, paused: true, ..ViewState::default() };
    let screen = drawn(&View { restarts: 2, ..view() }, &view_state, 80, 24);
    let mut lines = screen.lines();
    let title = lines.next().expect("there is a title");
    assert!(title.contains("started again 2 times") && title.ends_with(" PAUSED"), "{title}");
    assert_eq!(lines.next(), Some("lost, trying again: no daemon listens at /run/x.sock"));
    assert!(screen.contains("1,234,567"), "{screen}");
}

#[test]
fn the_help_fits_whole_on_the_smallest_terminal() {
    let view_state = ViewState { help: true, ..ViewState::default() };
    let screen = drawn(&view(), &view_state, SMALLEST.0, SMALLEST.1);
    for line in HELP {
        assert!(screen.contains(line), "{line} is not in\n{screen}");
    }
    assert_snapshot("80x24-help", &drawn(&view(), &view_state, 80, 24));
}

#[test]
fn a_terminal_that_is_too_small_is_told_what_is_needed() {
    assert_eq!(drawn(&view(), &ViewState::default(), 39, 20), "needs 40 x 10,\nhas 39 x 20\n");
    assert_eq!(drawn(&view(), &ViewState::default(), 5, 1), "needs\n");
}

#[test]
fn no_size_of_the_terminal_is_too_odd_to_draw_on() {
    let mut many = view();
    let cores = many.cores.as_mut().expect("it has some");
    cores.rows = (0..1000).map(|number| core(number, "held", Some((3, "web", 0)), None)).collect();
    let view_state = ViewState { help: true, ..ViewState::default() };
    for width in (0..300).step_by(7) {
        for height in (0..90).step_by(4) {
            for view in [&many, &view()] {
                let screen = drawn(view, &view_state, width, height);
                assert!(screen.lines().count() <= usize::from(height), "{width} x {height}");
            }
        }
    }
    drawn(&many, &view_state, 30_000, 20);
    drawn(&many, &view_state, 80, 10_000);
}

#[test]
fn lists_longer_than_any_screen_are_cut() {
    let mut long = view();
    long.losses = vec![loss("dispatcher", "drop_ring_full", 1.0, 1); 70_000];
    long.threads = vec![thread("worker", 1.0, None, "sleeps"); 70_000];
    let screen = drawn(&long, &ViewState::default(), 80, 40);
    assert!(screen.contains("… 699"), "{screen}");
}

#[test]
fn applications_stand_in_the_order_that_was_asked_for() {
    for (order, names) in [
        (Order::Packets, ["web", "an-applica", "dns", "calistod", "matrix"]),
        (Order::Delay, ["an-applica", "web", "calistod", "matrix", "dns"]),
        (Order::Cores, ["web", "matrix", "an-applica", "calistod", "dns"]),
        (Order::Name, ["an-applica", "calistod", "dns", "matrix", "web"]),
    ] {
        let view_state = ViewState { order, ..ViewState::default() };
        let screen = drawn(&view(), &view_state, 200, 50);
        let apps: Vec<&str> =
            screen.lines().skip_while(|line| !line.contains("application ")).skip(1).collect();
        for (line, name) in apps.iter().zip(names) {
            assert!(line.get(2..).is_some_and(|line| line.starts_with(name)), "{order:?}: {line}");
        }
    }
}

#[test]
fn a_letter_stays_with_its_application_in_every_order() {
    let marks = Marks::of(&view().apps);
    let letters: String = [0, 3, 7, 9, 12].map(|app| marks.letter(app)).into_iter().collect();
    assert_eq!(letters, "abcd?", "who takes no part has no letter");
    let apps: Vec<App> =
        (0..30).map(|number| app(number, "x", "runs", 0.0, view().apps[0].cores.clone())).collect();
    assert_eq!((Marks::of(&apps).letter(25), Marks::of(&apps).letter(26)), ('z', '+'));
}

#[test]
fn a_printed_screen_has_room_for_everything_and_no_keys() {
    let mut many = view();
    let cores = many.cores.as_mut().expect("it has some");
    cores.rows = (0..200).map(|number| core(number, "idle", None, None)).collect();
    let text = crate::command::top::printed(&many, 120);
    for part in ["199 idle", "worker 1", "ran_while_parked", "matrix"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("help") && !text.contains("… "), "{text}");
}
