//! What is wrong, what is doubtful, and what is neither.

use std::collections::BTreeMap;

use sys::interface::Interface;

use super::*;

/// Two queues on eth1, address 10.0.0.2, CPUs 0 to 3, users 0 and 1000.
fn machine() -> Machine {
    let interface = |name: &str, mtu| Interface {
        name: name.to_owned(),
        index: 2,
        mac: [2; 6],
        mtu,
        up: true,
        running: true,
        operational: true,
        rx_queues: 2,
        tx_queues: 2,
        kind: String::new(),
        master: None,
        lower: None,
        qdisc: "noqueue".to_owned(),
        xdp: None,
    };
    Machine {
        interfaces: vec![interface("lo", 65_536), interface("eth1", 1500), interface("big", 9000)],
        queues: BTreeMap::from([("eth1".to_owned(), 2)]),
        addresses: vec!["10.0.0.2".parse().expect("it is an address")],
        cpus: (0..4).collect(),
        users: BTreeMap::from([("root".to_owned(), 0), ("web".to_owned(), 1000)]),
    }
}

fn found(text: &str) -> Vec<Finding> {
    check(&Config::parse(text).expect(text), Some(&machine()))
}

#[test]
fn what_can_run_here_is_found_neither_wrong_nor_doubtful() {
    for text in [
        "ports = ['xdp:eth1@0', 'xdp:eth1@1']\n[cores]\nset = [0, 3]",
        "ports = ['xdp:eth1']\nlisten = ['udp:10.0.0.2:7']\n[workers]\njob = 'echo'\ncpus = [1]",
        "ports = ['af_packet:lo']\nlisten = ['tcp:10.0.0.3:7']\n[workers]\njob = 'tcp-echo'",
        "ports = ['tap:new0']\nlisten = ['udp:0.0.0.0:7']\n[workers]\njob = 'sink'",
        "ports = ['xdp:eth1']\n[apps]\nallow = ['user:web apps=3']\n[[tenant]]\nuid = 1000\n\
         [[tenant]]\nuid = '*'",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn what_the_daemon_would_refuse_is_wrong_and_says_which_item_and_the_mend() {
    for (text, key, index, part) in [
        ("ports = ['xdp:eth1', 'xdp:eth9']", "ports", Some(1), "did you mean eth1?"),
        ("ports = ['xpd:eth1']", "ports", Some(0), "did you mean xdp?"),
        ("ports = ['xdp:eth1@2']", "ports", Some(0), "ethtool -L eth1 combined 3"),
        ("ports = ['xdp:eth1', 'xdp:eth1,copy']", "ports", Some(1), "twice"),
        ("ports = ['xdp:eth1', 'xdp:eth1@1']", "ports", Some(1), "takes all queues"),
        ("ports = ['xdp:eth1@0', 'xdp:eth1@1,take=all']", "ports", Some(1), "the same mode="),
        ("ports = ['xdp:big']", "ports", Some(0), "ip link set dev big mtu"),
        ("ports = ['pcap:/nowhere.pcap']\nlisten = ['udp:0.0.0.0:7']", "ports", Some(0), "nowhere"),
        ("ports = ['xdp:eth1']\nlisten = ['udp:7']", "listen", Some(0), "udp:10.0.0.2:7"),
        (
            "ports = ['xdp:eth1']\nlisten = ['udp:10.0.0.2:7', 'udp:0.0.0.0:7']",
            "listen",
            Some(1),
            "taken by udp:10.0.0.2:7",
        ),
        ("ports = ['xdp:eth1']\nlisten = ['tcp:10.0.0.2:7']", "workers.job", None, "tcp-echo"),
        ("ports = ['xdp:eth1']\n[steer]\npolicy = 'stiky'", "steer.policy", None, "sticky"),
        ("ports = ['xdp:eth1']\n[cores]\npolicy = 'x'", "cores.policy", None, "queue_delay"),
        ("ports = ['xdp:eth1']\n[cores]\nset = [1, 1]", "cores.set", None, "twice"),
        ("ports = ['xdp:eth1']\n[cores]\nset = [1, 4]", "cores.set", Some(1), "no CPU 4"),
        ("ports = ['xdp:eth1']\n[apps]\nallow = ['user:bob']", "apps.allow", Some(0), "bob"),
        (
            "admin_socket = '/x/y'\nports = ['xdp:eth1']\n[apps]\nsocket = '/x/y'",
            "apps.socket",
            None,
            "another path",
        ),
        ("", "ports", None, "missing"),
    ] {
        let found = found(text);
        let is_it = |finding: &&Finding| (finding.key, finding.index) == (key, index);
        let finding = found.iter().find(is_it).unwrap_or_else(|| panic!("{text}: {found:?}"));
        assert_eq!(finding.severity, Severity::Wrong, "{text}");
        assert!(finding.says.contains(part), "{text}: {finding:?}");
    }
}

#[test]
fn what_hardly_anybody_means_is_doubtful() {
    for (text, key, index, part) in [
        (
            "ports = ['xdp:eth1']\nlisten = ['udp:10.9.9.9:7']\n[workers]\njob = 'echo'",
            "listen",
            Some(0),
            "ip address add",
        ),
        (
            "ports = ['af_packet:eth1']\nlisten = ['udp:10.0.0.2:7']\n[workers]\njob = 'echo'",
            "listen",
            Some(0),
            "both answer",
        ),
        ("ports = ['xdp:eth1']\nlisten = ['udp:10.0.0.2:7']", "workers.job", None, "forged"),
        ("ports = ['xdp:eth1']\n[workers]\ncpus = [9]", "workers.cpus", Some(0), "0-3"),
        (
            "ports = ['xdp:eth1']\n[workers]\ndispatcher_cpu = 7",
            "workers.dispatcher_cpu",
            Some(0),
            "no CPU 7",
        ),
        ("ports = ['xdp:eth1']\n[[tenant]]\nuid = 77", "tenant.uid", Some(0), "number 77"),
        (
            "ports = ['xdp:eth1']\n[[tenant]]\nuid = '*'\n[[tenant]]\nuid = 1000",
            "tenant.uid",
            Some(1),
            "move it before",
        ),
    ] {
        let found = found(text);
        let [Finding { severity: Severity::Doubtful, .. }] = &found[..] else {
            panic!("{text}: {found:?}")
        };
        assert_eq!((found[0].key, found[0].index), (key, index), "{text}");
        assert!(found[0].says.contains(part), "{text}: {found:?}");
    }
}

#[test]
fn another_machines_interfaces_cpus_and_users_are_not_asked_for() {
    let text = "ports = ['xdp:eth9@7']\nlisten = ['udp:10.9.9.9:7']\n[workers]\njob = 'echo'\n\
                cpus = [9]\n[apps]\nallow = ['user:bob']\n[[tenant]]\nuid = 77";
    let config = Config::parse(text).expect("every value is allowed");
    assert_eq!(check(&config, None), []);
    let wrong = Config::parse("ports = ['xdp:eth9@7,mod=x']").expect("it is a text");
    assert_eq!(check(&wrong, None).len(), 1);
}

#[test]
fn the_machine_that_runs_this_has_its_loopback_interface_and_root() {
    let machine = Machine::here().expect("the kernel tells");
    assert!(machine.interface("lo").is_some());
    assert!(machine.addresses.contains(&"127.0.0.1".parse().expect("it is an address")));
    assert!(!machine.cpus.is_empty());
    assert_eq!(machine.users.get("root"), Some(&0));
}
