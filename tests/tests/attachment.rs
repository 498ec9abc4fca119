//! Attachments begin and end in every way there is, the daemon's own end included, and leave
//! nothing behind.

use std::path::Path;
use std::time::{Duration, Instant};

use calisto_client::{App, AttachOptions, Nanos};
use rustix::process::Signal;
use testbed::Testbed;
use whole::{
    Application, Daemon, Liar, answered, babble, bed, binary, request, stranger, wait_for,
};

fn start(bed: &Testbed, more: &str) -> Daemon {
    let config = format!("ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n{more}");
    Daemon::start(bed.server(), &config)
}

#[test]
fn when_the_daemon_is_killed_those_who_sleep_and_those_who_poll_learn_it_and_may_serve_again() {
    let bed = bed();
    let mut daemon = start(&bed, "");
    let mut asleep = Application::start(&daemon, "udp-echo --listen udp:10.77.0.2:9 --name asleep");
    let kept = Application::start(
        &daemon,
        "udp-echo --listen udp:10.77.0.2:10 --name stays --workers 2 --keep",
    );
    let options = AttachOptions::new("poller").socket(daemon.apps_socket());
    let (app, mut workers) =
        App::attach(&options.listen("udp:10.77.0.2:11")).expect("the port is free");
    let poller = std::thread::spawn(move || {
        let mut batch = shm::Batch::new();
        let began = Instant::now();
        loop {
            match workers[0].receive(&mut batch) {
                Ok(_) => assert!(began.elapsed() < Duration::from_secs(60), "it polls for ever"),
                Err(detached) => return detached,
            }
        }
    });
    assert_eq!(answered(&bed, 9) + answered(&bed, 10), 200);
    wait_for("its sleep", || {
        let app = daemon.explain("asleep");
        if app.workers[0].asleep { Ok(()) } else { Err(format!("{app:?}")) }
    });
    daemon.kill();
    let ended = asleep.end();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.said.contains("the daemon is gone without a word"), "{ended:?}");
    let detached = poller.join().expect("it ends in time");
    assert_eq!(detached.reason, calisto_client::DetachReason::DaemonGone);
    assert!(!app.is_attached());
    kept.wait_until_it_says("attaches again");
    daemon.start_again(bed.server());
    kept.wait_until_attached(2);
    assert_eq!(answered(&bed, 10) + answered(&bed, 7), 200);
    assert!(kept.stop().status.success());
}

#[test]
fn a_daemon_that_is_asked_to_end_says_so_to_its_applications() {
    let bed = bed();
    let mut daemon = start(&bed, "");
    let mut application = Application::start(&daemon, "udp-echo --listen udp:10.77.0.2:9");
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success());
    let ended = application.end();
    // In the words of the daemon's message, or of the reason in shared memory: whichever it meets.
    let words = ["the daemon is ending", "the daemon ends"];
    assert!(words.iter().any(|words| ended.said.contains(words)), "{ended:?}");
    assert!(!daemon.apps_socket().exists(), "the socket is left behind");
}

/// Open descriptors of a process, and mappings of memory without a file.
fn holdings(pid: u32) -> (usize, usize) {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    (fds, maps.lines().filter(|line| line.contains("/memfd:")).count())
}

/// The same, once it stays the same: a connection to the admin socket is closed by a thread.
fn at_rest(pid: u32) -> (usize, usize) {
    let (mut last, mut times) = (holdings(pid), 0);
    wait_for("descriptors that stay the same", || {
        let now = holdings(pid);
        times = if now == last { times + 1 } else { 0 };
        last = now;
        if times == 20 { Ok(()) } else { Err(format!("{now:?}")) }
    });
    last
}

#[test]
fn two_hundred_attachments_leave_the_daemon_with_the_descriptors_and_the_memory_of_before() {
    let bed = bed();
    let daemon = start(&bed, "");
    // One of each kind first: what is made once for all is there then.
    let cycle = |number: u32| {
        if number.is_multiple_of(20) {
            Application::start(&daemon, "udp-echo --listen udp:10.77.0.2:9 --name cycle").kill();
        } else {
            drop(Liar::attach(&daemon, "cycle", "udp:10.77.0.2:9").expect("the port is free"));
        }
        wait_for("its end", || {
            let here = daemon.apps().iter().filter(|app| app.state != "gone").count();
            if here == 0 { Ok(()) } else { Err(format!("{here} are attached")) }
        });
    };
    (0..2).for_each(cycle);
    let before = at_rest(daemon.pid());
    (0..200).for_each(cycle);
    wait_for("the descriptors and mappings of before", || {
        let after = holdings(daemon.pid());
        if after == before { Ok(()) } else { Err(format!("{after:?}, not {before:?}")) }
    });
    let gone = daemon.apps();
    assert!(gone.len() == 64 && gone.iter().all(|app| app.state == "gone"), "{}", gone.len());
    let _last = Application::start(&daemon, "udp-echo --listen udp:10.77.0.2:9 --name last");
    assert_eq!(answered(&bed, 9), 100);
}

#[test]
fn strangers_who_say_nothing_or_nonsense_keep_nobody_else_out() {
    let bed = bed();
    let daemon = start(&bed, "");
    let silent: Vec<_> = (0..80).map(|_| stranger(&daemon)).collect();
    let first = Application::start(&daemon, "udp-echo --listen udp:10.77.0.2:9 --name first");
    assert_eq!(answered(&bed, 9) + answered(&bed, 7), 200);
    drop(silent);
    let long = vec![b' '; 60_000];
    let deep = "[".repeat(50_000);
    for nonsense in [
        &b""[..],
        b"hello",
        b"\xff\xfe\0",
        b"{}",
        br#"{"v":2,"attach":{"name":"a","listen":[],"workers":1}}"#,
        br#"{"v":1,"attach":{"name":"../../etc","listen":["udp:10.77.0.2:12"],"workers":1}}"#,
        br#"{"v":1,"attach":{"name":"a","listen":["udp:10.77.0.2:12"],"workers":4294967295}}"#,
        br#"{"v":1,"attach":{"name":"a","listen":["udp:10.77.0.2:12"],"workers":1,"frames":4294967295}}"#,
        br#"{"v":1,"attach":{"name":"a","listen":["udp:10.77.0.2:12"],"workers":1,"frame_bytes":1}}"#,
        br#"{"v":1,"attach":{"name":"a","listen":["nonsense"],"workers":1}}"#,
        &long,
        deep.as_bytes(),
    ] {
        let stranger = stranger(&daemon);
        babble(&stranger, nonsense);
        let mut answer = [0; 4096];
        let flags = rustix::net::RecvFlags::empty();
        let (len, _) = rustix::net::recv(&stranger, &mut answer[..], flags).expect("it answers or closes");
        let answer = String::from_utf8_lossy(&answer[..len]);
        assert!(answer.is_empty() || answer.contains("refused"), "{answer}");
    }
    // One that is attached and goes on talking is thrown out, and only that one.
    let talker = Liar::attach(&daemon, "talker", "udp:10.77.0.2:13").expect("it looks honest");
    let again = attach::ToDaemon::Attach(request("talker", "udp:10.77.0.2:14"));
    talker.link.send(&again).expect("the daemon reads");
    assert_eq!(daemon.wait_until_gone("talker").name, "protocol");
    let names: Vec<String> = daemon.apps().into_iter().map(|app| app.name).collect();
    assert_eq!(names, ["first", "talker"]);
    assert_eq!(answered(&bed, 9), 100);
    drop(first);
}

#[test]
fn many_programs_of_one_user_that_begin_at_the_same_moment_are_all_heard() {
    let bed = bed();
    let daemon = start(&bed, "");
    // They have all connected and spoken before the daemon can look.
    daemon.signal(Signal::STOP);
    let links: Vec<attach::Link> = (0..14)
        .map(|number| {
            let link = attach::Link::connect(&daemon.apps_socket()).expect("it listens");
            let listen = format!("udp:10.77.0.2:{}", 2000 + number);
            let request = request(&format!("burst-{number}"), &listen);
            link.send(&attach::ToDaemon::Attach(request)).expect("there is room");
            link
        })
        .collect();
    daemon.signal(Signal::CONT);
    for link in &links {
        let answer = link.receive(Nanos::from_secs(20)).expect("the daemon lives");
        let (answer, _) = answer.expect("it answers");
        assert!(matches!(answer, attach::ToApp::Attached(_)), "{answer:?}");
    }
}

#[test]
fn a_daemon_whose_output_nobody_reads_any_more_goes_on() {
    let bed = bed();
    let folder = std::env::temp_dir().join(format!("calisto-deaf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
    let (admin, apps) = (folder.join("admin.sock"), folder.join("apps.sock"));
    let config = format!(
        "admin_socket = {admin:?}\nports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n"
    );
    let file = folder.join("calisto.toml");
    std::fs::write(&file, config).expect("the folder is ours");
    let mut daemon = bed.server().command(binary("calistod"));
    daemon.arg("--config").arg(&file);
    daemon.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut daemon = daemon.spawn().expect("calistod is there");
    // Both ends that hear it are closed as soon as it is there.
    wait_for("its socket", || {
        if Path::exists(&apps) && Path::exists(&admin) { Ok(()) } else { Err("none".to_owned()) }
    });
    drop((daemon.stdout.take(), daemon.stderr.take()));
    let served = std::panic::catch_unwind(|| {
        for port in [9, 10] {
            let options = AttachOptions::new("echo").socket(&apps);
            let options = options.listen(format!("udp:10.77.0.2:{port}"));
            let (app, workers) = App::attach(&options).expect("the daemon is alive");
            drop(workers);
            app.detach();
        }
        answered(&bed, 7)
    });
    let ended = daemon.try_wait().expect("it is our child");
    let _ = daemon.kill();
    let _ = daemon.wait();
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(ended, None, "the daemon has ended");
    assert!(served.is_ok_and(|count| count == 100));
}

#[test]
fn an_application_that_waits_for_the_daemon_comes_in_when_it_is_there() {
    let bed = bed();
    let mut daemon = start(&bed, "");
    daemon.kill();
    let options = AttachOptions::new("early").socket(daemon.apps_socket());
    let early = options.listen("udp:10.77.0.2:9").wait(Duration::from_secs(30));
    let waits =
        std::thread::spawn(move || App::attach(&early).map(|(app, workers)| (app.id(), workers)));
    daemon.start_again(bed.server());
    let (id, mut workers) = waits.join().expect("it does not panic").expect("it gets in");
    assert_eq!(daemon.explain("early").id, id);
    assert_eq!(workers[0].wait(Nanos::from_millis(1)), Ok(false), "there is nothing yet");
}
