//! Everything that can be wrong at the start, and what an operator's socket may be sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use admin::ReplyBody;
use testbed::{Side, Testbed, TestbedConfig};
use whole::{Daemon, TIMEOUT, bed, binary, run, wait_for};

const GOOD: &str = "ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n";

#[test]
fn a_wrong_configuration_is_one_sentence_that_says_what_and_what_to_do_and_exit_1() {
    let bed = bed();
    for (config, sentences) in [
        ("prots = [\"xdp:veth0\"]\n".to_owned(), vec!["prots", "ports"]),
        (GOOD.replace("xdp:veth0", "xpd:veth0"), vec!["xpd", "xdp"]),
        (GOOD.replace("udp:10.77.0.2:7", "udp:10.77.0.2"), vec!["udp:10.0.0.2:7"]),
        (format!("{GOOD}[steer]\npolicy = \"stiky\"\n"), vec!["stiky", "sticky"]),
        (format!("{GOOD}[steer]\ngroups = 1000\n"), vec!["groups", "power of two"]),
        (format!("{GOOD}[workers]\ncount = 0\n"), vec!["workers.count", "1"]),
        (format!("{GOOD}[frames]\nbytes = 1500\n"), vec!["frames.bytes", "4096"]),
        (GOOD.replace("veth0", "veth9"), vec!["veth9"]),
        ("listen = [\"udp:10.77.0.2:7\"]\n".to_owned(), vec!["ports"]),
    ] {
        let (status, said) = Daemon::try_start(bed.server(), &config).expect_err(&config);
        assert_eq!(status.code(), Some(1), "{config}: {said}");
        for sentence in sentences {
            assert!(said.contains(sentence), "{config}: {said:?} does not say {sentence:?}");
        }
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
}

#[test]
fn a_queue_that_is_taken_and_a_foreign_program_are_refused_by_name() {
    let bed = bed();
    let _first = Daemon::start(bed.server(), GOOD);
    let (status, said) = Daemon::try_start(bed.server(), GOOD).expect_err("veth0 is taken");
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("veth0") && said.contains("XDP"), "{said}");
}

#[test]
fn an_mtu_that_no_frame_holds_is_refused_with_the_numbers() {
    let bed = Testbed::new(TestbedConfig { mtu: 9000, ..TestbedConfig::default() })
        .expect("this test needs root and the ip command");
    let (status, said) = Daemon::try_start(bed.server(), GOOD).expect_err("9000 bytes do not fit");
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("9000") && said.contains("MTU"), "{said}");
}

#[test]
fn an_interface_that_vanishes_stops_its_traffic_and_nothing_else() {
    let bed = bed();
    let mut daemon = Daemon::start(bed.server(), GOOD);
    let mut delete = bed.server().command("ip");
    let (status, _, said) = run(delete.args(["link", "del", "veth0"]));
    assert!(status.success(), "{said}");
    let fault = (0..2000).find_map(|_| {
        let ReplyBody::Status(status) = daemon.ask(admin::Command::Status) else {
            panic!("no status")
        };
        std::thread::sleep(std::time::Duration::from_millis(10));
        status.ports[0].fault.clone()
    });
    assert!(fault.is_some_and(|fault| fault.contains("removed")), "status must say it");
    daemon.must(admin::Command::Stop);
    assert!(daemon.wait().success());
}

#[test]
fn an_interface_that_is_down_is_told_from_the_start_on_and_so_is_its_coming_up() {
    for port in ["xdp:veth0", "af_packet:veth0"] {
        let bed = bed();
        let set = |up: &str| {
            let mut command = bed.server().command("ip");
            let (status, _, said) = run(command.args(["link", "set", "veth0", up]));
            assert!(status.success(), "{said}");
        };
        set("down");
        let daemon = Daemon::start(bed.server(), &GOOD.replace("xdp:veth0", port));
        for round in 1..=2 {
            let down = "the interface is down: set it up with `ip link set dev veth0 up`";
            wait_for("status that says it", || {
                let (status, out, _) = daemon.try_calisto("status");
                (status.code() == Some(1) && out.contains(down)).then_some(()).ok_or(out)
            });
            let line = format!("port {port} moves nothing: {down}");
            wait_for("a line of the log for each", || {
                let told = daemon.said();
                let count = told.lines().filter(|told| told.contains(&line)).count();
                (count == round).then_some(()).ok_or(told)
            });
            set("up");
            wait_for("status that is well again", || match daemon.try_calisto("status") {
                (status, ..) if status.success() => Ok(()),
                (_, out, wrong) => Err(out + &wrong),
            });
            if round == 1 {
                set("down");
            }
        }
        assert!(!daemon.said().contains("removed"), "{}", daemon.said());
    }
}

#[test]
fn a_file_that_is_a_pipe_or_has_no_end_is_refused_by_every_command_that_reads_one() {
    let folder = std::env::temp_dir().join(format!("calisto-no-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
    let [pipe, zero] = ["pipe.toml", "zero.toml"].map(|name| folder.join(name));
    let (status, _, said) = run(Command::new("mkfifo").arg(&pipe));
    assert!(status.success(), "{said}");
    std::os::unix::fs::symlink("/dev/zero", &zero).expect("the folder is the test's");
    let mut answers = Vec::new();
    for (file, is) in [(&pipe, "a pipe (FIFO)"), (&zero, "a device")] {
        for words in ["config check", "up --config", "nf check", "nf run", "sim", "steer load"] {
            // Who waits for ever is ended, with another exit code.
            let mut command = Command::new("timeout");
            command.arg("10").arg(binary("calisto")).args(words.split(' ')).arg(file);
            let (status, _, said) = run(&mut command);
            answers.push((words, is, status.code(), said));
        }
        if answers.iter().any(|(_, _, code, _)| *code == Some(124)) {
            // It would read the other one until there is no memory.
            break;
        }
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
    for (words, is, code, said) in answers {
        assert_eq!(code, Some(1), "{words}: {said}");
        assert!(said.contains(is), "{words}: {said}");
    }
}

#[test]
fn a_port_comes_back_with_an_interface_of_its_name_and_connections_go_on() {
    let bed = bed();
    let mut daemon = Daemon::start(
        bed.server(),
        "ports = [\"xdp:veth0\"]\nlisten = [\"tcp:10.77.0.2:7\"]\n[workers]\njob = \"tcp-echo\"\n",
    );
    let connect = || {
        let connect = || TcpStream::connect("10.77.0.2:7");
        let stream = bed.client().enter(connect).expect("the namespace is there");
        let stream = stream.expect("the daemon listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("it is a time");
        stream
    };
    let echo = |stream: &mut TcpStream, text: &[u8]| {
        stream.write_all(text).expect("the connection is there");
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).expect("an answer comes");
        assert_eq!(answer, text);
    };
    let ip = |side: &Side, words: &str| {
        let (status, _, said) = run(side.command("ip").args(words.split(' ')));
        assert!(status.success(), "ip {words}: {said}");
    };
    let mut before = connect();
    echo(&mut before, b"before");
    for round in 1..=2 {
        ip(bed.server(), "link del veth0");
        let (said, wrong) =
            wait_for("status that says it", || match daemon.try_calisto("status") {
                // It is down for a moment before it is gone.
                (status, out, wrong) if status.code() == Some(1) && out.contains("removed") => {
                    Ok((out, wrong))
                }
                (status, out, _) => Err(format!("{status}: {out}")),
            });
        assert!(said.contains("FAULT"), "{said}");
        assert!(wrong.contains("xdp:veth0 moves nothing"), "{wrong}");

        // Another pair, with link addresses of its own.
        let (client, server) = (bed.client(), bed.server());
        let far = format!("link add veth0 type veth peer name veth0 netns {}", client.namespace());
        ip(server, &far);
        for (side, address) in [(server, "10.77.0.2/24"), (client, "10.77.0.1/24")] {
            ip(side, &format!("addr add {address} dev veth0"));
            ip(side, "link set veth0 up");
        }
        wait_for("status that is well again", || match daemon.try_calisto("status") {
            (status, ..) if status.success() => Ok(()),
            (_, out, wrong) => Err(out + &wrong),
        });
        echo(&mut connect(), b"a new connection");
        echo(&mut before, format!("after {round}").as_bytes());
        // The log is written by a thread of its own.
        wait_for("a line of the log for each", || {
            let told = daemon.said();
            let count = |part: &str| told.lines().filter(|line| line.contains(part)).count();
            let removed = count("port xdp:veth0 moves nothing: the interface was removed");
            // It may have been down when it was looked at, and works again from then on as well.
            let works = count("port xdp:veth0 works again");
            (removed == round && works >= round).then_some(()).ok_or(told)
        });
    }
    daemon.must(admin::Command::Stop);
    assert!(daemon.wait().success());
}

#[test]
fn the_admin_socket_answers_nonsense_with_a_sentence_and_lives_on() {
    let bed = bed();
    let daemon = Daemon::start(bed.server(), GOOD);
    for (line, sentence) in [
        ("hello", "admin protocol"),
        ("{}", "admin protocol"),
        (r#"{"v":2,"command":"status"}"#, "version 2"),
        (r#"{"v":1,"command":"workers","count":0}"#, "1 to 64"),
        (r#"{"v":1,"command":"workers","count":65}"#, "1 to 64"),
        (r#"{"v":1,"command":"steer_pin","target":{"group":99999999},"worker":0}"#, "no group"),
        (r#"{"v":1,"command":"steer_pin","target":{"group":1},"worker":60}"#, "worker 60"),
        (r#"{"v":1,"command":"steer_pin","target":{"flow":"udp x"},"worker":0}"#, "udp"),
        (r#"{"v":1,"command":"steer_load","table":"nonsense"}"#, "groups N"),
    ] {
        let ReplyBody::Error { message } = daemon.line(line) else { panic!("{line} is accepted") };
        assert!(message.contains(sentence), "{line}: {message}");
    }
    // Bytes that are no text, a line without an end, and a client that just leaves.
    for bytes in [&b"\xff\xfe\n"[..], &b"{\"v\":1"[..], &b""[..]] {
        let mut stream = UnixStream::connect(daemon.socket()).expect("the daemon listens");
        stream.write_all(bytes).expect("the daemon reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_line(&mut answer);
        assert!(answer.is_empty() || answer.contains("error"), "{answer}");
    }
    assert!(matches!(daemon.ask(admin::Command::Status), ReplyBody::Status(_)));
}

#[test]
fn sigterm_ends_it_cleanly_and_leaves_nothing_behind() {
    let bed = bed();
    let mut daemon = Daemon::start(bed.server(), GOOD);
    let socket = daemon.socket();
    assert!(socket.exists());
    daemon.signal(rustix::process::Signal::TERM);
    assert!(daemon.wait().success());
    assert!(!socket.exists(), "the admin socket is left behind");
    let mut show = bed.server().command("ip");
    let (_, links, _) = run(show.args(["-d", "link", "show", "veth0"]));
    assert!(!links.contains("xdp"), "the program is left behind: {links}");
}

#[test]
fn a_second_daemon_on_the_same_admin_socket_is_refused_and_a_dead_ones_socket_is_replaced() {
    let bed = bed();
    let first = Daemon::start(bed.server(), GOOD);
    let socket = first.socket();
    let config = socket.with_file_name("second.toml");
    let text = format!(
        "admin_socket = {:?}\n{}",
        socket.display().to_string(),
        GOOD.replace("xdp:", "af_packet:")
    );
    std::fs::write(&config, text).expect("the folder is ours");
    let mut second = bed.server().command(whole::binary("calistod"));
    let (status, _, said) = run(second.arg("--config").arg(&config));
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("answers there already"), "{said}");
    first.signal(rustix::process::Signal::KILL);
    let mut first = first;
    first.wait();
    assert!(socket.exists(), "a killed daemon leaves its socket");
    let mut third = bed.server().command(whole::binary("calistod"));
    third.arg("--config").arg(&config).stdout(std::process::Stdio::piped());
    let mut third = third.spawn().expect("calistod is there");
    let mut line = String::new();
    BufReader::new(third.stdout.take().expect("piped")).read_line(&mut line).expect("text");
    let _ = third.kill();
    let _ = third.wait();
    assert!(line.starts_with("ready: "), "{line}");
}

#[test]
fn a_daemon_with_a_million_groups_stays_under_64_mib() {
    let bed = bed();
    let config =
        format!("{GOOD}[workers]\ncount = 4\n[steer]\ngroups = 1048576\npolicy = \"prefilled\"\n");
    let daemon = Daemon::start(bed.server(), &config);
    daemon.wait_until("a full table", |steer| steer.unowned == 0);
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("it runs");
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 64 * 1024, "{kib} KiB");
}
