//! Applications attach, serve, misbehave and leave; what each of them does harms only itself.

use std::net::SocketAddr;

use admin::{AppStatus, Command, ReplyBody};
use rustix::process::Signal;
use testbed::Testbed;
use whole::{
    Application, Daemon, Flows, Liar, Sniffer, answered, bed, binary, run, serve_with_the_kernel,
    wait_for,
};

/// A daemon whose own job answers on port 7.
fn start(bed: &Testbed, more: &str) -> Daemon {
    let config = format!("ports = [\"xdp:veth0\"]\nlisten = [\"udp:10.77.0.2:7\"]\n{more}");
    Daemon::start(bed.server(), &config)
}

fn echo(daemon: &Daemon, port: u16) -> Application {
    Application::start(daemon, &format!("udp-echo --listen udp:10.77.0.2:{port} --name echo{port}"))
}

fn packets(app: &AppStatus) -> u64 {
    app.workers.iter().map(|worker| worker.packets).sum()
}

/// Packets that the daemon's own workers have had.
fn own_packets(daemon: &Daemon) -> u64 {
    let ReplyBody::Status(status) = daemon.ask(Command::Status) else { panic!("no status") };
    status.workers.iter().map(|worker| worker.packets).sum()
}

fn counter(app: &AppStatus, name: &str) -> u64 {
    app.counters.iter().find(|counter| counter.name == name).map_or(0, |counter| counter.value)
}

/// One request of a flow to `port` that need not be answered.
fn knock(bed: &Testbed, port: u16) {
    let server = SocketAddr::from((bed.server().ipv4(), port));
    let sent = bed.client().enter(|| {
        let mut flow = Flows::new(1, "0.0.0.0:0".parse().expect("an address"), server);
        flow.send_all();
        flow.sent
    });
    assert_eq!(sent.expect("the client's namespace is there"), 1);
}

#[test]
fn two_applications_and_the_daemons_own_job_each_get_their_own_packets_and_no_others() {
    let bed = bed();
    let daemon = start(&bed, "[workers]\ncount = 2\n");
    let words = "udp-echo --listen udp:10.77.0.2:9 --workers 2 --name nine -j";
    let nine = Application::start(&daemon, words);
    let ten = Application::start(&daemon, "udp-echo --listen udp:10.77.0.2:10 --name ten -j");
    let (on_nine, on_ten, on_seven) =
        (answered(&bed, 9), answered(&bed, 10) + answered(&bed, 10), answered(&bed, 7));
    assert_eq!(own_packets(&daemon), on_seven);
    let explained = daemon.explain("nine");
    assert_eq!((packets(&explained), explained.workers.len()), (on_nine, 2));
    assert_eq!((explained.pid, explained.uid), (nine.pid(), 0));
    assert_eq!(packets(&daemon.explain("ten")), on_ten);

    let table = daemon.calisto("apps");
    let row = table.lines().find(|line| line.contains("nine")).expect("it is listed");
    for part in ["udp:10.77.0.2:9", "attached", &nine.pid().to_string(), &on_nine.to_string()] {
        assert!(row.contains(part), "{part}: {table}");
    }
    let text = daemon.calisto("explain nine");
    assert!(text.contains("listens on udp:10.77.0.2:9") && text.contains("worker"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&daemon.calisto("apps -j")).expect("-j prints JSON");
    let names: Vec<_> =
        json["apps"].as_array().expect("a list").iter().map(|a| &a["name"]).collect();
    assert_eq!(names, ["nine", "ten"]);
    let json: serde_json::Value =
        serde_json::from_str(&daemon.calisto("explain nine -j")).expect("-j prints JSON");
    assert_eq!(json["app"]["listen"][0], "udp:10.77.0.2:9");

    for (application, expected) in [(nine, on_nine), (ten, on_ten)] {
        let ended = application.stop();
        assert!(ended.status.success(), "{ended:?}");
        let figures: serde_json::Value = serde_json::from_str(&ended.out).expect("-j prints JSON");
        assert_eq!((&figures["received"], &figures["sent"]), (&expected.into(), &expected.into()));
    }
    daemon.wait_until_gone("nine");
    assert_eq!(answered(&bed, 7), on_seven, "the daemon's own job goes on");
}

#[test]
fn a_killed_applications_port_is_linuxs_again_and_it_may_come_back_at_once() {
    let bed = bed();
    let daemon = start(&bed, "");
    for _ in 0..3 {
        let application = echo(&daemon, 9);
        assert_eq!(answered(&bed, 9), 100);
        application.kill();
        wait_for("the end of its process", || {
            let reason = daemon.wait_until_gone("echo9").message;
            if reason == "its process ended" { Ok(()) } else { Err(reason) }
        });
        assert!(daemon.calisto("apps").contains("gone: its process ended"));
        let kernel = serve_with_the_kernel(&bed, 9);
        assert_eq!(answered(&bed, 9), 100);
        assert_eq!(kernel.end(), 100, "Linux has answered");
        assert_eq!(answered(&bed, 7), 100);
    }
}

#[test]
fn a_stopped_application_holds_up_nobody_and_is_detached_and_learns_it_when_it_goes_on() {
    let bed = bed();
    let daemon = start(&bed, "[apps]\nstall_ms = 3000\n");
    let other = echo(&daemon, 10);
    for keep in [false, true] {
        let words = "udp-echo --listen udp:10.77.0.2:9 --name nine";
        let words = if keep { format!("{words} --keep") } else { words.to_owned() };
        let mut stopped = Application::start(&daemon, &words);
        assert_eq!(answered(&bed, 9), 100);
        stopped.pause();
        knock(&bed, 9);
        let reason = wait_for("the end of the stopped one", || {
            assert_eq!(answered(&bed, 10) + answered(&bed, 7), 200, "others are served");
            let status = daemon.explain("nine");
            status.reason.clone().ok_or_else(|| format!("{status:?}"))
        });
        assert_eq!(reason.name, "stalled");
        let kernel = serve_with_the_kernel(&bed, 9);
        assert_eq!(answered(&bed, 9), kernel.end(), "its port is Linux's");
        stopped.signal(Signal::CONT);
        if keep {
            stopped.wait_until_attached(2);
            assert_eq!(answered(&bed, 9), 100);
        } else {
            let ended = stopped.end();
            assert_eq!(ended.status.code(), Some(1), "{ended:?}");
            assert!(ended.said.contains("too long"), "{ended:?}");
        }
    }
    drop(other);
}

/// Violates the protocol.
type Tell = fn(&mut Liar);

#[test]
fn an_application_that_violates_the_protocol_is_detached_with_the_violation_named_and_others_are_served()
 {
    let bed = bed();
    let daemon = start(&bed, "");
    let _other = echo(&daemon, 10);
    let violations: [(&str, Tell); 4] = [
        ("a message of no known kind", |liar| liar.say([99; 8])),
        ("lies in none of its buffers", |liar| liar.say([1, u64::MAX, 0, 0, 0, 0, 0, 0])),
        ("a buffer that it did not have", |liar| {
            // Its own buffers stand behind the 16 for received packets, none of which it has.
            let own = liar.end.take().expect("the rings are whole").expect("it is fresh");
            let received = u64::from(own.desc().offset) - 16 * 2048;
            liar.say([1, received | 64 << 32, 0, 0, u64::from(u32::MAX), 0, 0, 0]);
        }),
        ("a ring's index", |liar| {
            // Every word of the first pages, so also the indices of its rings.
            liar.write(4096 - 64, &[0x5a; 64]);
            for at in (256..4096).step_by(64) {
                liar.write(at, &[0x5a; 4]);
            }
            liar.ring();
        }),
    ];
    for (violation, tell) in violations {
        let mut liar = Liar::attach(&daemon, "liar", "udp:10.77.0.2:9").expect("it looks honest");
        tell(&mut liar);
        let reason = daemon.wait_until_gone("liar");
        assert_eq!(reason.name, "lied", "{violation}");
        assert!(reason.message.contains(violation), "{violation}: {}", reason.message);
        assert_eq!(liar.last_words().reason, attach::DetachReason::Violation);
        let text = daemon.calisto("explain liar");
        assert!(text.contains("because") && text.contains(violation), "{text}");
        assert_eq!(answered(&bed, 10) + answered(&bed, 7), 200, "{violation}");
    }
}

/// A UDP packet to the client, with a payload by which it is known on the wire.
fn packet(bed: &Testbed, source_mac: [u8; 6], source: &str) -> Vec<u8> {
    let packet = wire::build::UdpPacket {
        source_mac,
        destination_mac: bed.client().mac(),
        source: source.parse().expect("an address"),
        destination: SocketAddr::from((bed.client().ipv4(), 5000)),
        payload: b"by the application itself",
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it is as long as it says");
    bytes
}

#[test]
fn what_an_application_sends_in_anothers_name_is_counted_and_never_seen_on_the_wire() {
    let bed = bed();
    let daemon = start(&bed, "");
    let sniffer = Sniffer::new(bed.client());
    let mut spoofer = Liar::attach(&daemon, "spoofer", "udp:10.77.0.2:9").expect("it looks honest");
    let own_mac = bed.server().mac();
    let mut arp = vec![0xff; 6];
    arp.extend(own_mac);
    arp.extend([8, 6]);
    arp.resize(60, 0);
    for (source_mac, source) in [
        (own_mac, "10.77.0.9:9"),
        (own_mac, "10.77.0.2:10"),
        (own_mac, "10.77.0.2:7"),
        ([2, 0, 0, 0, 0, 99], "10.77.0.2:9"),
    ] {
        spoofer.send(&packet(&bed, source_mac, source));
    }
    spoofer.send(&arp);
    let honest = packet(&bed, own_mac, "10.77.0.2:9");
    spoofer.send(&honest);
    // Packets of a worker leave in order: when the last one is there, nothing else comes.
    let mut heard = Vec::new();
    wait_for("the honest packet on the wire", || {
        heard.extend(sniffer.packets());
        if heard.contains(&honest) { Ok(()) } else { Err(format!("{} packets", heard.len())) }
    });
    // The client's kernel quotes it in an answer of its own: nobody listens there.
    let from_client = bed.client().mac();
    let marked = |packet: &&Vec<u8>| {
        packet[6..12] != from_client
            && packet.windows(25).any(|bytes| bytes == b"by the application itself")
    };
    assert_eq!(heard.iter().filter(marked).count(), 1);
    assert!(!heard.contains(&arp));
    let explained = daemon.explain("spoofer");
    assert_eq!(explained.state, "attached", "it is stopped, not thrown out: {explained:?}");
    assert_eq!(counter(&explained, "drop_spoofed"), 4, "{explained:?}");
    let text = daemon.calisto("explain spoofer");
    assert!(text.lines().any(|line| line.contains("drop_spoofed") && line.contains('4')), "{text}");
}

#[test]
fn a_user_attaches_only_by_a_rule_and_within_it() {
    const USER: u32 = 65534;
    const POOR: u32 = 65533;
    let bed = bed();
    let rules = format!(
        "[apps]\nallow = [\"uid:0\", \"uid:{USER} listen=udp:10.77.0.2:53,udp:*:54 apps=1 workers=2\", \
         \"uid:{POOR} memory_mib=1\"]\n"
    );
    let daemon = start(&bed, &rules);
    let refused = |uid: u32, words: &str| {
        let ended = Application::try_start_as(&daemon, uid, words).expect_err(words);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert_eq!(ended.said.trim_end().lines().count(), 1, "{ended:?}");
        ended.said
    };
    for (uid, words, sentences) in [
        (65532, "udp-echo --listen udp:10.77.0.2:53", ["user 65532", "apps.allow"]),
        (USER, "udp-echo --listen udp:10.77.0.2:9", ["udp:10.77.0.2:9", "apps.allow"]),
        (USER, "udp-echo --listen udp:10.77.0.2:0", ["udp:10.77.0.2:0", "apps.allow"]),
        (USER, "udp-echo --listen tcp:10.77.0.2:53", ["tcp:10.77.0.2:53", "apps.allow"]),
        (USER, "udp-echo --listen udp:10.77.0.2:53 --workers 3", ["3 workers", "the 2"]),
        (POOR, "udp-echo --listen udp:10.77.0.2:9 --workers 2", ["1 MiB", "apps.allow"]),
    ] {
        let said = refused(uid, words);
        for sentence in sentences {
            assert!(said.contains(sentence), "{words}: {said}");
        }
    }
    let words = "udp-echo --listen udp:10.77.0.2:53 --listen udp:10.77.0.2:54 --workers 2";
    let application = Application::try_start_as(&daemon, USER, words).expect("it has a rule");
    assert_eq!(answered(&bed, 53) + answered(&bed, 54), 200);
    assert_eq!(daemon.explain("udp-echo").uid, USER);
    let said = refused(USER, "udp-echo --listen udp:10.77.0.2:54 --name second");
    assert!(said.contains("may have no more"), "{said}");
    application.kill();
    daemon.wait_until_gone("udp-echo");
    let again = Application::try_start_as(&daemon, USER, words).expect("there is room again");
    assert_eq!(answered(&bed, 53), 100);
    drop(again);
}

#[test]
fn a_port_that_is_taken_is_refused_with_its_name_and_stays_with_its_owner() {
    let bed = bed();
    let daemon = start(&bed, "");
    let _nine = echo(&daemon, 9);
    for (listen, owner) in [("udp:10.77.0.2:9", "echo9"), ("udp:10.77.0.2:7", "daemon")] {
        let words = format!("udp-echo --listen {listen} --name late");
        let ended = Application::try_start(&daemon, &words).expect_err("it is taken");
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.said.contains(listen), "{owner}: {ended:?}");
    }
    assert_eq!(answered(&bed, 9) + answered(&bed, 7), 200);
    assert_eq!(packets(&daemon.explain("echo9")), 100);
    assert!(daemon.apps().iter().all(|app| app.name != "late"), "who never was in, is not shown");
    // The same port of the other protocol is another one.
    let tcp = Application::start(&daemon, "udp-echo --listen tcp:10.77.0.2:9 --name tcp");
    assert_eq!(answered(&bed, 9), 100);
    drop(tcp);
}

#[test]
fn what_an_application_does_not_do_is_said_when_it_asks_the_daemons_tool() {
    let bed = bed();
    let daemon = start(&bed, "");
    assert!(daemon.calisto("apps").contains("no application"));
    let (status, _, said) = daemon.try_calisto("explain nobody");
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("nobody") && said.contains("calisto apps"), "{said}");
    let application = echo(&daemon, 9);
    daemon.calisto("apps detach echo9");
    let mut application = application;
    let ended = application.end();
    assert!(ended.said.contains("operator"), "{ended:?}");
    assert_eq!(daemon.wait_until_gone("echo9").name, "operator");
    let (status, _, _) = run(bed
        .server()
        .command(binary("calisto"))
        .arg("apps")
        .env("CALISTO_ADMIN", daemon.folder().join("none.sock")));
    assert_eq!(status.code(), Some(1));
}
