//! What routers and hosts say of datagrams by ICMP: programs hear of it as on Linux, with and
//! without a queue of errors, and what is too long for a link on the way is cut or refused.

use std::fs;

use testbed::Side;
use whole::{Accelerated, Trap, kernel_udp, run, wait_for};

fn set(side: &Side, settings: &[(&str, &str)]) {
    let entered = side.enter(|| {
        for (name, value) in settings {
            let file = format!("/proc/sys/net/{name}");
            fs::write(&file, value).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
    });
    entered.expect("the namespace is there");
}

fn ip(side: &Side, words: &str) {
    let (status, _, said) = run(side.command("ip").args(words.split(' ')));
    assert!(status.success(), "ip {words}: {said}");
}

/// The other end says each time that a port is closed, or a link narrow.
fn talkative() -> Accelerated {
    let accelerated = Accelerated::start();
    set(accelerated.there(), &[("ipv4/icmp_ratelimit", "0"), ("ipv6/icmp/ratelimit", "0")]);
    accelerated
}

#[test]
fn what_icmp_says_of_datagrams_is_told_as_on_linux_with_a_queue_of_errors_and_without() {
    let trap = Trap::build("errors");
    let accelerated = talkative();
    let calisto = trap.on_calisto(&accelerated);
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
    assert!(accelerated.daemon().counter("attach_errors_given") > 0);
    assert_eq!(calisto, trap.on_linux(&accelerated), "Calisto on the left, Linux on the right");
}

/// A host behind which a link takes 1,280 bytes.
fn narrow() -> Accelerated {
    let accelerated = talkative();
    let (here, there) = (accelerated.here(), accelerated.there());
    set(there, &[("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")]);
    ip(there, "link add narrow type veth peer name end");
    for name in ["narrow", "end"] {
        ip(there, &format!("link set {name} mtu 1280 arp off up"));
    }
    ip(there, "address add 10.99.0.1/24 dev narrow");
    ip(there, "address add fd99::1/64 dev narrow nodad");
    ip(here, &format!("route add 10.99.0.0/24 via {}", there.ipv4()));
    ip(here, &format!("route add fd99::/64 via {}", there.ipv6()));
    accelerated
}

#[test]
fn datagrams_learn_how_much_a_path_takes_and_are_cut_or_refused_as_on_linux() {
    let trap = Trap::build("narrow");
    let accelerated = narrow();
    let before = kernel_udp(accelerated.here(), "OutDatagrams");
    let calisto = trap.on_calisto(&accelerated);
    let by_kernel = kernel_udp(accelerated.here(), "OutDatagrams") - before;
    accelerated.all_was_accelerated();
    accelerated.nothing_is_left();
    wait_for("paths that are known to be narrow", || {
        match accelerated.daemon().counter("tcp_narrow_paths") {
            4.. => Ok(()),
            count => Err(format!("{count} of four")),
        }
    });
    let fresh = narrow();
    let before = kernel_udp(fresh.here(), "OutDatagrams");
    assert_eq!(calisto, trap.on_linux(&fresh), "Calisto on the left, Linux on the right");
    let in_all = kernel_udp(fresh.here(), "OutDatagrams") - before;
    assert!(by_kernel < in_all, "the kernel has sent {by_kernel} of {in_all}");
}
