//! What breaks stacks that stand in for the kernel's: each a C program that sees the same on Linux
//! as on Calisto, with its peer on Linux at the other end of a wire.

use std::net::{Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use whole::{Accelerated, Trap, kernel_udp, looks_like_linux, project, wait_for};

macro_rules! traps {
    ($($sentence:ident: $program:literal;)*) => {$(
        #[test]
        fn $sentence() {
            looks_like_linux($program);
        }
    )*};
}

traps! {
    processes_share_connections_and_listeners_after_fork: "fork";
    children_that_share_memory_and_close_everything_end_nothing: "vfork";
    duplicates_share_a_description_and_replaced_descriptors_end_theirs: "dup";
    sockets_that_were_passed_on_are_used_by_whoever_has_them: "passed";
    connections_that_are_given_on_at_once_are_never_found_unconnected: "given_on";
    sets_tell_levels_edges_and_ends_of_both_kinds_of_members: "epoll";
    poll_and_select_take_long_lists_and_masks_for_the_wait_alone: "poll";
    connecting_without_waiting_tells_its_errors_once: "connect";
    one_way_ends_resets_and_broken_pipes_are_told_as_linux_does: "half_close";
    flags_lists_and_bad_pointers_do_what_they_do_on_linux: "flags";
    signals_interrupt_time_limits_end_and_canceled_threads_leave: "signals";
    files_pipes_and_streams_go_through_sockets: "sendfile";
    programs_that_begin_with_a_caller_at_their_standard_output_print_to_it: "stdio";
    options_are_told_inherited_and_refused_as_on_linux: "options";
    who_has_no_descriptor_left_leaves_callers_waiting: "limits";
    a_new_program_goes_on_with_what_was_left_open: "exec";
    programs_that_call_one_after_another_take_their_memory_away: "regions";
    resets_and_urgent_data_arrive_as_such_within_a_host: "within";
    members_of_a_set_stay_so_when_they_are_connected_bound_or_told_to_listen: "early";
    workers_of_a_server_that_dropped_its_rights_and_its_root_are_served: "privileges";
}

#[test]
fn a_call_that_waits_leaves_the_file_alone_that_its_number_is_given_to() {
    let trap = Trap::build("replaced");
    let accelerated = Accelerated::start();
    let calisto = trap.on_calisto(&accelerated);
    // When the rest of a connection has gone that was closed with its buffers full is not looked at
    // here.
    accelerated.all_was_accelerated();
    assert_eq!(calisto, trap.on_linux(&accelerated), "Calisto on the left, Linux on the right");
}

#[test]
fn buffers_options_signals_and_ends_are_those_of_linux_within_a_host() {
    let trap = Trap::build("within_rules");
    let accelerated = Accelerated::start();
    let calisto = trap.on_calisto(&accelerated);
    // Calls to where nobody listens any more are the kernel's to refuse.
    let reasons: Vec<String> = accelerated.fallbacks().into_iter().map(|of| of.reason).collect();
    assert_eq!(reasons, ["loopback_peer_not_accelerated"]);
    accelerated.nothing_is_left();
    assert_eq!(calisto, trap.on_linux(&accelerated), "Calisto on the left, Linux on the right");
}

#[test]
fn datagrams_of_sockets_without_a_port_go_our_way_and_only_long_ones_the_kernels() {
    let trap = Trap::build("datagrams");
    let accelerated = Accelerated::start();
    let sent_by_kernel = || kernel_udp(accelerated.here(), "OutDatagrams");
    let before = sent_by_kernel();
    let calisto = trap.on_calisto(&accelerated);
    assert_eq!(sent_by_kernel() - before, 3, "only what does not fit into a packet");
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
    assert_eq!(calisto, trap.on_linux(&accelerated), "Calisto on the left, Linux on the right");
}

#[test]
fn a_server_of_datagrams_goes_on_by_the_kernel_when_the_daemon_was_killed() {
    let trap = Trap::build("answers");
    let mut accelerated = Accelerated::start();
    let (here, there) = (accelerated.here().ipv4(), accelerated.there().ipv4());
    let words = [trap.path(), "here", &here.to_string(), &there.to_string()];
    let mut server = accelerated.run(&words);
    server.wait_until_it_says("ready");
    let client = accelerated.there().enter(|| UdpSocket::bind((there, 0)));
    let client = client.expect("the namespace is there").expect("any port");
    client.connect((here, 5015)).expect("it has an address");
    client.set_read_timeout(Some(Duration::from_millis(200))).expect("no zero");
    let ask = |text: &str| {
        wait_for("an answer", || {
            client.send(text.as_bytes()).map_err(|error| error.to_string())?;
            let mut answer = [0; 64];
            let bytes = client.recv(&mut answer).map_err(|error| error.to_string())?;
            (&answer[..bytes] == text.as_bytes()).then_some(()).ok_or("another's".to_owned())
        });
    };
    ask("one");
    accelerated.all_was_accelerated();
    accelerated.daemon_mut().0.kill();
    ask("two");
    ask("end");
    server.succeed();
}

#[test]
fn listeners_and_datagrams_that_the_rules_deny_are_refused() {
    let rules = "[[tenant]]\nuid = \"*\"\nlisten = [\"*:8000\"]\ndenied = \"refuse\"\n";
    let accelerated = Accelerated::with(rules);
    let told = Trap::build("denied").on_calisto(&accelerated);
    let meant = "listen: 0\nlisten where it is not allowed: EACCES\nit listens: 0\n\
                 connect: ECONNREFUSED\nclose: 0\n\
                 bind: 0\nbind where it is not allowed: EACCES\nconnect: EACCES\n\
                 sendto: EACCES\nsendmsg: EACCES\nsendto: EACCES\nsendmsg: EACCES\n";
    assert_eq!(told, meant);
    accelerated.nothing_is_left();
}

/// Gives each caller of `address` back what it says, from the other end.
fn echoes(accelerated: &Accelerated, address: SocketAddr) {
    let listener = accelerated.there().enter(|| TcpListener::bind(address));
    let listener = listener.expect("the namespace is there").expect("the port is free");
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            let Ok(mut caller) = caller else { return };
            std::thread::spawn(move || {
                let mut back = caller.try_clone().expect("descriptors are left");
                std::io::copy(&mut caller, &mut back)
            });
        }
    });
}

#[test]
fn a_program_has_more_connections_than_there_are_ports_to_different_peers() {
    let accelerated = Accelerated::start();
    let set = accelerated
        .here()
        .enter(|| std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40019"));
    set.expect("the namespace is there").expect("this test runs as root");
    let host = accelerated.there().ipv4();
    (8000..8004).for_each(|port| echoes(&accelerated, (host, port).into()));
    let script = project().join("tests/programs/many_peers.py").display().to_string();
    let words = ["/usr/bin/python3", &script, &host.to_string(), "8000", "4", "12"];
    let said = accelerated.run(&words).succeed();
    assert!(said.starts_with("48 connections from "), "{said}");
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
}

#[test]
fn a_neighbour_is_called_by_its_links_own_address_and_the_kernel_serves_that() {
    let accelerated = Accelerated::start();
    let show = ["ip", "-6", "-o", "addr", "show", "dev", "veth0", "scope", "link"];
    let said = accelerated.run_there(&show).succeed();
    let address = said.split_whitespace().find(|word| word.starts_with("fe80"));
    let address = address.and_then(|word| word.split('/').next()).expect("it has one");
    echoes(&accelerated, (Ipv6Addr::UNSPECIFIED, 8000).into());
    let script = project().join("tests/programs/echoed.py").display().to_string();
    let words = ["/usr/bin/python3", &script, &format!("{address}%veth0"), "8000", "1000"];
    assert_eq!(accelerated.run(&words).succeed(), "1000 bytes came back\n");
    let reasons: Vec<String> = accelerated.fallbacks().into_iter().map(|of| of.reason).collect();
    assert_eq!(reasons, ["no_route_here"]);
    accelerated.nothing_is_left();
}

#[test]
fn one_listener_of_both_families_has_callers_of_the_wire_and_of_loopback() {
    // Those of loopback are the kernel's: so only what is seen is compared.
    let trap = Trap::build("mapped");
    let accelerated = Accelerated::start();
    let calisto = trap.on_calisto(&accelerated);
    accelerated.nothing_is_left();
    assert_eq!(calisto, trap.on_linux(&accelerated), "Calisto on the left, Linux on the right");
}
