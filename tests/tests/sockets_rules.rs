//! Who is not accelerated, and is told so: by the rules of a tenant or of nftables, or by what the
//! program is.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::time::{Duration, Instant};

use whole::{Accelerated, Finished, Program, TIMEOUT, Trap, project, run};

const PYTHON: &str = "/usr/bin/python3";

fn script(name: &str) -> String {
    project().join("tests/programs").join(name).display().to_string()
}

/// Says hello to an echo on Linux at the other end, on the port; how that ended.
fn hello(accelerated: &Accelerated, port: &str) -> Finished {
    let there = accelerated.there().ipv4().to_string();
    let mut server = accelerated.run_there(&[PYTHON, &script("asyncio_server.py"), &there, port]);
    server.wait_until_it_says("listening");
    let talk = [PYTHON, &script("asyncio_client.py"), &there, port, "1", "1000"];
    accelerated.run(&talk).end()
}

fn reasons(accelerated: &Accelerated) -> Vec<String> {
    accelerated.fallbacks().into_iter().map(|total| total.reason).collect()
}

#[test]
fn a_tenant_connects_only_to_where_it_may() {
    let rules = "[[tenant]]\nuid = \"*\"\nconnect = [\"10.77.0.0/24:8000-8009\"]\n";
    let accelerated = Accelerated::with(rules);
    let ended = hello(&accelerated, "8000");
    assert!(ended.status.success(), "{}", ended.said);
    let ended = hello(&accelerated, "8010");
    assert!(!ended.status.success() && ended.said.contains("PermissionError"), "{}", ended.said);
    accelerated.nothing_is_left();
}

#[test]
fn a_tenant_listens_only_where_it_may() {
    let accelerated = Accelerated::with("[[tenant]]\nuid = \"*\"\nlisten = [\"*:8000\"]\n");
    let serve =
        |port: &str| accelerated.run(&[PYTHON, &script("asyncio_server.py"), "0.0.0.0", port]);
    serve("8000").wait_until_it_says("listening");
    let Finished { status, said, .. } = serve("8001").end();
    assert!(!status.success() && said.contains("PermissionError"), "{said}");
    accelerated.nothing_is_left();
}

#[test]
fn a_tenant_sends_as_fast_as_it_may_and_loses_nothing_by_it() {
    const BYTES: usize = 4_000_000;
    let accelerated =
        Accelerated::with("[[tenant]]\nuid = \"*\"\nrate_mbit = 16\nburst_kib = 64\n");
    let address = SocketAddr::from((accelerated.there().ipv4(), 8000));
    let listener = accelerated.there().enter(|| TcpListener::bind(address));
    let listener = listener.expect("the namespace is there").expect("the port is free");
    // It ends as soon as all is in buffers: what the rate has held back until then is sent after
    // that.
    let say = "import socket, sys\n\
        with socket.create_connection((sys.argv[1], 8000)) as one: one.sendall(bytes(int(sys.argv[2])))\n";
    let words = [PYTHON, "-c", say, &address.ip().to_string(), &BYTES.to_string()];
    let program = accelerated.run(&words);
    let (mut stream, _) = listener.accept().expect("it comes");
    stream.set_read_timeout(Some(TIMEOUT)).expect("no zero");
    stream.read_exact(&mut [0]).expect("it says something");
    let began = Instant::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it ends in order");
    let took = began.elapsed();
    assert_eq!(rest.len(), BYTES - 1);
    // Two million bytes a second, and at most 64 KiB at once: two seconds, less what had come
    // before we looked. Without a limit it is a tenth of that.
    assert!(took > Duration::from_millis(1000), "{took:?}");
    program.succeed();
    accelerated.all_was_accelerated();
    drop(stream);
    accelerated.nothing_is_left();
}

#[test]
fn a_tenant_that_is_denied_may_be_left_to_the_kernel() {
    let rules = "[[tenant]]\nuid = \"*\"\nconnect = []\ndenied = \"kernel\"\n";
    let accelerated = Accelerated::with(rules);
    let ended = hello(&accelerated, "8000");
    assert!(ended.status.success(), "{}", ended.said);
    assert_eq!(reasons(&accelerated), ["not_permitted"]);
    assert_eq!(accelerated.carried().sent, 0);
}

#[test]
fn rules_of_nftables_are_not_passed_by_unless_that_is_wanted() {
    let mut install = Command::new(project().join("script/install-missing"));
    let (status, _, said) = run(install.arg("nft=nftables"));
    assert!(status.success(), "{said}");
    for (setting, is_kernels) in [("", true), ("[sockets]\nignore_firewall = true\n", false)] {
        let accelerated = Accelerated::with(setting);
        let mut nft = accelerated.here().command("nft");
        let (status, _, said) = run(nft.arg(
            "add table inet guard; add chain inet guard in { type filter hook input priority 0; }; \
             add rule inet guard in tcp dport 9999 drop",
        ));
        assert!(status.success(), "{said}");
        let ended = hello(&accelerated, "8000");
        assert!(ended.status.success(), "{}", ended.said);
        match is_kernels {
            true => {
                assert_eq!(reasons(&accelerated), ["firewall_rules"]);
                assert!(ended.said.contains("nftables"), "it is said: {}", ended.said);
            }
            false => accelerated.all_was_accelerated(),
        }
    }
}

#[test]
fn filters_of_traffic_control_at_a_ports_interface_are_not_passed_by() {
    let accelerated = Accelerated::with("");
    let served = hello(&accelerated, "8000");
    assert!(served.status.success(), "{}", served.said);
    accelerated.all_was_accelerated();
    let tc = |words: &str| {
        let (status, _, said) = run(accelerated.here().command("tc").args(words.split(' ')));
        assert!(status.success(), "{said}");
    };
    tc("qdisc add dev veth0 clsact");
    tc("filter add dev veth0 egress protocol ip u32 match u32 0 0 flowid 1:1");
    // Of these filters the kernel tells nothing: what is known of them is a second old at most, and
    // the connection of a program that is served when they are seen ends with that.
    let is_seen = (0..50).any(|_| {
        hello(&accelerated, "8001");
        reasons(&accelerated).contains(&"firewall_rules".to_owned())
    });
    assert!(is_seen, "somebody is served past the filter: {:?}", accelerated.fallbacks());
    let before = accelerated.carried().sent;
    let ended = hello(&accelerated, "8001");
    assert!(ended.status.success(), "{}", ended.said);
    assert_eq!(accelerated.carried().sent, before, "the kernel serves it");
}

#[test]
fn what_ipsec_is_to_guard_neither_comes_nor_leaves_past_it() {
    let accelerated = Accelerated::with("");
    let served = hello(&accelerated, "8000");
    assert!(served.status.success(), "{}", served.said);
    accelerated.all_was_accelerated();
    let mut policy = accelerated.here().command("ip");
    // No connection here matches it: that there is one is enough.
    policy.args("xfrm policy add dir out src 10.1.0.0/16 dst 10.2.0.0/16 action block".split(' '));
    let (status, _, said) = run(&mut policy);
    assert!(status.success(), "{said}");
    // The kernel is asked once a second.
    let is_seen = (0..50).any(|_| {
        hello(&accelerated, "8001");
        reasons(&accelerated).contains(&"firewall_rules".to_owned())
    });
    assert!(is_seen, "somebody is served past it: {:?}", accelerated.fallbacks());
    let before = accelerated.carried().sent;
    let ended = hello(&accelerated, "8001");
    assert!(ended.status.success(), "{}", ended.said);
    assert_eq!(accelerated.carried().sent, before, "the kernel serves it");
}

/// A program that cannot be helped: told so, not run when it must be accelerated, run all the same
/// else.
fn cannot_be_helped(accelerated: &Accelerated, program: &Trap, word: &str) {
    let words = ["there", "10.77.0.2", "10.77.0.1"];
    let mut strict = accelerated.command(program.path());
    let (status, _, said) = run(strict.arg("--help"));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(word) && said.contains("not started"), "{said}");
    let peer = accelerated.run_there(&[program.path(), words[0], words[1], words[2]]);
    let mut command = accelerated.command_with(&[], program.path());
    let Finished { status, out, said } =
        Program::spawn(command.args(["here", words[1], words[2]])).end();
    assert!(status.success() && said.contains(word) && said.contains("kernel"), "{said}");
    assert!(!out.is_empty());
    peer.succeed();
    assert_eq!(accelerated.sockets(), [], "it is the kernel's");
}

#[test]
fn static_programs_and_those_with_other_rights_are_told_that_they_cannot_be_helped() {
    let accelerated = Accelerated::start();
    let linked = Trap::build_with("limits", &["-static"]);
    cannot_be_helped(&accelerated, &linked, "statically linked");
    drop(linked);
    let set_user = Trap::build("limits");
    chown(set_user.path(), Some(65534), Some(65534)).expect("we are root");
    let rights = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(set_user.path(), rights).expect("it is ours");
    cannot_be_helped(&accelerated, &set_user, "set-user-id");
}

#[test]
fn programs_of_other_users_are_started_without_their_starters_memory_and_get_their_own() {
    let accelerated = Accelerated::start();
    let told = Trap::build("rights").on_calisto(&accelerated);
    let lost = "no memory of its starter, hears";
    let meant = [
        "same-user: a ticket, the same memory, hears hello",
        &format!("closed: no ticket, {lost} EBADF"),
        &format!("other-user: no ticket, {lost} ENOTCONN"),
        &format!("stale: no ticket, {lost} ENOTCONN"),
        &format!("spawned: no ticket, {lost} EBADF"),
        &format!("set-user-id: no ticket, {lost} ENOTCONN"),
        "the program hears hellohello",
    ];
    let told: Vec<&str> = told.lines().filter(|line| !line.contains(" ends with 0")).collect();
    assert_eq!(told, meant);
}

#[test]
fn sockets_with_options_that_only_the_kernel_carries_out_are_the_kernels_and_keep_what_was_promised()
 {
    let trap = Trap::build("promises");
    let accelerated = Accelerated::start();
    let calisto = trap.on_calisto(&accelerated);
    let told = accelerated.fallbacks();
    let told: Vec<_> = told.iter().map(|total| (total.reason.as_str(), total.count)).collect();
    assert_eq!(told, [("unsupported_option", 6)]);
    accelerated.nothing_is_left();
    assert_eq!(calisto, trap.on_linux(&accelerated), "Calisto on the left, Linux on the right");
}
