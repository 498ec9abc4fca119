//! Tables of texts and what becomes of them, and any text at all.

use base::Nanos;
use proptest::prelude::*;

use crate::rule::{Kind, RULES, Rule, TENANT};
use crate::{Arrangement, Config, Congestion, Denied, Idle, Job, Spin, TenantUser};

/// The sentence with which a text is refused.
fn refusal(text: &str) -> String {
    match Config::parse(text) {
        Ok(_) => panic!("it was taken: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_empty_text_is_the_default() {
    assert_eq!(Config::parse(""), Ok(Config::default()));
}

#[test]
fn every_key_that_is_written_has_its_effect() {
    let config = Config::parse(
        r#"
        ports = ["xdp:veth0", "tap:tap0"]
        listen = ["udp:10.77.0.2:7"]
        admin_socket = "/tmp/a.sock"
        trust_link = true
        [workers]
        count = 4
        max = 8
        job = "synthetic"
        state_bytes = 256
        state_flows = 700_000
        arrangement = "threads"
        cpus = [1, 0]
        dispatcher_cpu = 1
        [steer]
        policy = "modulo"
        groups = 0x100000
        overrides = 0
        seed = 7
        tick_us = 5
        load_interval_us = 2000
        idle_timeout_ms = 100
        [handover]
        hold_packets = 64
        deadline_ms = 5
        [frames]
        count = 8192
        bytes = 2048
        [wait]
        spin_us = -1
        idle = "yield"
        "#,
    )
    .expect("all of it is allowed");
    assert_eq!(config.ports, ["xdp:veth0", "tap:tap0"]);
    assert_eq!(config.listen, ["udp:10.77.0.2:7"]);
    assert_eq!(config.admin_socket, "/tmp/a.sock");
    assert!(config.trust_link);
    let workers = &config.workers;
    assert_eq!((workers.count, workers.max), (4, 8));
    assert_eq!(workers.job, Job::Synthetic);
    assert_eq!((workers.state_bytes, workers.state_flows), (256, 700_000));
    assert_eq!(workers.arrangement, Arrangement::Threads);
    assert_eq!((&workers.cpus[..], workers.dispatcher_cpu), (&[1, 0][..], Some(1)));
    let steer = &config.steer;
    assert_eq!(steer.policy, "modulo");
    assert_eq!((steer.groups, steer.overrides, steer.seed), (1 << 20, 0, Some(7)));
    assert_eq!((steer.tick_us, steer.load_interval_us), (5, 2000));
    assert_eq!(steer.idle_timeout_ms, 100);
    assert_eq!((config.handover.hold_packets, config.handover.deadline_ms), (64, 5));
    assert_eq!((config.frames.count, config.frames.bytes), (8192, 2048));
    assert_eq!((config.wait.spin(), config.wait.idle), (Spin::Forever, Idle::Yield));
    assert_eq!(Config::parse(&config.to_toml()), Ok(config));
}

#[test]
fn tenants_are_listed_one_by_one_and_the_first_that_fits_counts() {
    let config = Config::parse(
        r#"
        [sockets]
        ignore_firewall = true
        drain_ms = 50
        [[tenant]]
        uid = 33
        listen = ["10.0.0.0/8:1-1023", "*:8080"]
        connect = ["[fd00::/8]:443"]
        denied = "kernel"
        rate_mbit = 100
        burst_kib = 64
        apps = 2
        connections = 1000
        memory_mib = 32
        congestion = ["reno", "dctcp"]
        default_congestion = "dctcp"
        [[tenant]]
        uid = "*"
        listen = []
        "#,
    )
    .expect("all of it is allowed");
    assert!(config.sockets.ignore_firewall);
    assert_eq!(config.sockets.drain_ms, 50);
    let web = config.tenant(33);
    assert!(web.may_listen(33, "10.1.1.1:80".parse().expect("an address")));
    assert!(!web.may_listen(33, "11.1.1.1:80".parse().expect("an address")));
    assert!(web.may_connect("[fd00::1]:443".parse().expect("an address")));
    assert_eq!((web.denied, web.rate_mbit, web.burst_kib), (Denied::Kernel, 100, 64));
    assert_eq!((web.apps, web.connections, web.memory_mib), (2, 1000, 32));
    assert_eq!(web.congestion(), Congestion::Dctcp);
    let other = config.tenant(1000);
    assert_eq!(other.uid, TenantUser::Anyone);
    assert!(!other.may_listen(1000, "10.1.1.1:8080".parse().expect("an address")));
    assert_eq!(other.congestion(), Congestion::Cubic);
    assert_eq!(Config::parse(&config.to_toml()), Ok(config.clone()));
    let mut changed = config.clone();
    changed.set("tcp.no_delay=true").expect("a key");
    assert_eq!(changed.tenants, config.tenants, "a key of a command line leaves them alone");
}

#[test]
fn workers_serve_sockets_when_nobody_listens_and_nothing_else_is_said() {
    let mut config = Config::default();
    assert_eq!(config.job(), Job::Sockets);
    config.set("steer.policy=shared").expect("a policy");
    assert_eq!(config.job(), Job::Echo, "a connection has one worker");
    config.set_all(["steer.policy=sticky", "listen=udp:10.0.0.2:7"]).expect("a listener");
    assert_eq!(config.job(), Job::Echo);
    config.set_all(["listen=[]", "ports=af_packet:eth1"]).expect("a port");
    assert_eq!(config.job(), Job::Echo, "that port sees the kernel's own connections");
    config.set("workers.job=sockets").expect("a job");
    assert_eq!(config.job(), Job::Sockets);
    let error = config.check_complete().expect_err("it cannot be").to_string();
    assert!(error.contains("xdp port"), "{error}");
    config.set("ports=xdp:eth1").expect("a port");
    assert_eq!(config.check_complete(), Ok(()));
}

#[test]
fn a_refusal_names_line_key_and_what_is_allowed() {
    for (text, line, parts) in [
        ("[steer]\npolcy = 'x'", 2, &["`steer.polcy`", "did you mean `steer.policy`?"][..]),
        ("[steer]\nlisten = []", 2, &["`steer.listen`", "did you mean `listen`?"]),
        ("\n\npolicy = 'x'", 3, &["`policy`", "did you mean `steer.policy`?"]),
        ("[workers]\njobb = 'echo'", 2, &["did you mean `workers.job`?"]),
        ("[wait]\nbanana = 1", 2, &["`wait.banana`", "keys there are spin_us, idle"]),
        ("[worker]\ncount = 1", 1, &["`[worker]`", "did you mean `[workers]`?"]),
        ("[banana]\n", 1, &["`[banana]`", "sections are workers, steer, handover, frames, wait"]),
        ("workers = 3", 1, &["`workers` is a section", "[workers]"]),
        ("[[workers]]\ncount = 1", 1, &["`workers` is a section"]),
        ("[workers]\ncount = 0", 2, &["`workers.count` is 0", "from 1 to 1024"]),
        ("[workers]\ncount = 1.5", 2, &["is 1.5", "a whole number from 1 to 1024"]),
        ("[workers]\ncount = \"4\"", 2, &["is \"4\"", "a whole number"]),
        ("[workers]\nmax = 99999999999999999999", 2, &["is 99999999999999999999", "1024"]),
        ("workers.job = 'ecko'", 1, &["one of \"echo\"", "did you mean \"echo\"?"]),
        ("workers.cpus = [1024]", 1, &["is [1024]", "from 0 to 1023"]),
        ("workers.cpus = 1", 1, &["is 1", "an array"]),
        ("[steer]\ngroups = 1000", 2, &["is 1000", "a power of two from 128 to 1048576"]),
        ("[steer]\ngroups = 64", 2, &["is 64", "a power of two from 128 to 1048576"]),
        ("[steer]\nseed = -1", 2, &["is -1", "from 0"]),
        ("[frames]\nbytes = 8192", 2, &["is 8192", "a power of two from 2048 to 4096"]),
        ("[wait]\nspin_us = -2", 2, &["is -2", "from -1 to 1000000"]),
        ("[wait]\nidle = 'slep'", 2, &["did you mean \"sleep\"?"]),
        ("trust_link = 1", 1, &["`trust_link` is 1", "true or false"]),
        ("ports = 'xdp:veth0'", 1, &["is \"xdp:veth0\"", "an array of at most 64 texts"]),
        ("ports = ['']", 1, &["is [\"\"]", "1 to 255 bytes"]),
        ("admin_socket = \"a\\u0000b\"", 1, &["`admin_socket`", "1 to 107 bytes"]),
        ("listen = [1979-05-27]", 1, &["a date"]),
        ("\n[workers]\ncount = 65", 3, &["more than `workers.max`, which is 64"]),
        ("[frames]\ncount = 64\n[handover]\nhold_packets = 65", 4, &["only 64 frames"]),
        ("[workers]\nstate_bytes = 65536\nstate_flows = 16777216", 3, &["68719476736"]),
        ("[tenant]\nuid = 5", 1, &["there may be several", "`[[tenant]]`"]),
        ("[[tenants]]\nuid = 5", 1, &["`[tenants]`", "did you mean `[[tenant]]`?"]),
        ("tenant = [1]", 1, &["`[[tenant]]`"]),
        ("[[tenant]]\nuid = 'root'", 2, &["is \"root\"", "a user's number or \"*\""]),
        ("[[tenant]]\nlisten = []", 1, &["this is not TOML", "missing field `uid`"]),
        ("[[tenant]]\nuid = 1\n[[tenant]]\nuid = 2\nlisten = ['x:1']", 5, &["10.0.0.0/8:1-1023"]),
        ("[[tenant]]\nuid = 1\ncongestion = ['cubic', 'cubic']", 3, &["each once"]),
        ("[[tenant]]\nuid = 1\ncongestion = []", 3, &["one or more"]),
        ("[[tenant]]\nuid = 1\nconections = 5", 3, &["did you mean `tenant.connections`?"]),
        ("[[tenant]]\nuid = 1\ndefault_congestion = 'dctcp'", 3, &["none of its `congestion`"]),
        ("[[tenant]]\nuid = '*'\n[[tenant]]\nuid = '*'", 2, &["two `[[tenant]]`", "user \"*\""]),
        ("x = \n", 1, &["this is not TOML"]),
        ("[steer]\n[steer]\n", 2, &["this is not TOML"]),
        ("[steer]\nseed = 1\nseed = 2\n", 3, &["this is not TOML"]),
    ] {
        let sentence = refusal(text);
        assert!(sentence.starts_with(&format!("line {line}: ")), "{text:?}: {sentence}");
        for part in parts {
            assert!(sentence.contains(part), "{text:?}: {sentence}");
        }
        assert!(!sentence.contains('\n'), "{text:?}: {sentence}");
    }
}

#[test]
fn the_first_mistake_of_a_text_is_the_one_reported() {
    let sentence = refusal("[workers]\nzount = 1\n[steer]\nbolicy = 'x'\n");
    assert!(sentence.starts_with("line 2"), "{sentence}");
    let sentence = refusal("[steer]\nbolicy = 'x'\n[workers]\nzount = 1\n");
    assert!(sentence.starts_with("line 2"), "{sentence}");
}

#[test]
fn a_long_or_ugly_key_is_shown_shortened_and_escaped() {
    let sentence = refusal(&format!("\"{}\\n\" = 1", "k".repeat(10_000)));
    assert!(sentence.len() < 400 && sentence.contains('…'), "{sentence}");
    let sentence = refusal("\"a\\u001b[31m\" = 1");
    assert!(!sentence.contains('\u{1b}'), "{sentence:?}");
}

#[test]
fn an_assignment_changes_one_key() {
    let mut config = Config::default();
    for assignment in [
        "steer.policy=modulo",
        "steer.groups = 128",
        "workers.count=4",
        "workers.cpus=1,0",
        "workers.arrangement=\"threads\"",
        "ports=xdp:veth0,mode=generic",
        "listen=['udp:10.0.0.1:7']",
        "trust_link=true",
        "confine=false",
        "wait.spin_us=0",
    ] {
        config.set(assignment).expect(assignment);
    }
    let mut expected = Config {
        ports: vec!["xdp:veth0,mode=generic".to_owned()],
        listen: vec!["udp:10.0.0.1:7".to_owned()],
        trust_link: true,
        confine: false,
        ..Config::default()
    };
    expected.steer.policy = "modulo".to_owned();
    expected.steer.groups = 128;
    expected.workers.count = 4;
    expected.workers.cpus = vec![1, 0];
    expected.workers.arrangement = Arrangement::Threads;
    expected.wait.spin_us = 0;
    assert_eq!(config, expected);
    assert_eq!(config.wait.spin(), Spin::For(Nanos::ZERO));
}

#[test]
fn assignments_that_need_each_other_are_taken_together_in_any_order() {
    for pair in [["workers.count=100", "workers.max=200"], ["workers.max=200", "workers.count=100"]]
    {
        let mut config = Config::default();
        config.set_all(pair).expect("the result is in order");
        assert_eq!((config.workers.count, config.workers.max), (100, 200));
    }
    let mut config = Config::default();
    let error = config.set_all(["steer.policy=modulo", "workers.count=0"]);
    assert!(error.is_err());
    assert_eq!(config, Config::default());
}

#[test]
fn a_refused_assignment_says_why_and_changes_nothing() {
    let mut config = Config::default();
    for (assignment, part) in [
        ("steer.policy", "write KEY=VALUE"),
        ("", "write KEY=VALUE"),
        ("=", "keys there are ports"),
        ("policy=modulo", "did you mean `steer.policy`?"),
        ("worker.count=1", "did you mean `workers.count`?"),
        ("workers=1", "is a section"),
        ("workers.count=", "a whole number from 1 to 1024"),
        ("workers.count=four", "is four; allowed is a whole number"),
        ("workers.count=1\n[steer]", "a whole number"),
        ("workers.count=65", "more than `workers.max`"),
        ("workers.job=dance", "one of \"echo\""),
        ("nope.x=3", "there is no section `nope` either: sections are "),
        ("nope.x=3", "keys without one are ports, "),
        ("stear.zzzz=3", "keys there are steer.policy, "),
        ("tenant.uid=5", "set in a file"),
        ("tenant=[]", "there may be several tenants"),
        ("ports=", "at most 64 texts"),
    ] {
        match config.set(assignment) {
            // No text at all is an array of no texts.
            Ok(()) => assert_eq!(assignment, "ports="),
            Err(error) => assert!(error.to_string().contains(part), "{assignment}: {error}"),
        }
        assert_eq!(config, Config::default());
    }
}

#[test]
fn a_configuration_without_ports_or_anybody_to_listen_is_not_complete() {
    let mut config = Config::default();
    let error = config.check_complete().expect_err("no port").to_string();
    assert!(error.contains("`ports` is missing"), "{error}");
    config.set("ports=xdp:eth1").expect("a port");
    assert_eq!(config.check_complete(), Ok(()), "applications bring listeners of their own");
    config.set("apps.max=0").expect("none may");
    let error = config.check_complete().expect_err("no listener").to_string();
    assert!(error.contains("`listen` is missing"), "{error}");
    config.set("listen=udp:10.0.0.2:7").expect("a listener");
    assert_eq!(config.check_complete(), Ok(()));
}

#[test]
fn every_rule_allows_its_bounds_and_refuses_what_lies_beyond() {
    for rule in RULES {
        let (Kind::Range(min, max) | Kind::PowerOfTwo(min, max)) = rule.kind else {
            continue;
        };
        let is_refused_by_its_rule = |value: i128| {
            let parsed = Config::parse(&match rule.section {
                TENANT => format!("[[{TENANT}]]\nuid = 1\n{} = {value}", rule.key),
                _ => format!("{} = {value}", rule.path()),
            });
            // A relation to another key may refuse what the rule allows.
            parsed.is_err_and(|error| error.to_string().contains(&rule.kind.to_string()))
        };
        for (value, refused) in [
            (i128::from(min) - 1, true),
            (i128::from(min), false),
            (i128::from(max), false),
            (i128::from(max) + 1, true),
        ] {
            assert_eq!(is_refused_by_its_rule(value), refused, "{} = {value}", rule.path());
        }
    }
}

#[test]
fn every_default_is_allowed_and_every_rule_has_its_field() {
    let text = Config::default().to_toml();
    assert_eq!(Config::parse(&text), Ok(Config::default()), "{text}");
    let optional = ["workers.dispatcher_cpu", "cores.policy", "steer.seed", "apps.socket"];
    // A target has the level of all, unless it is given one.
    let is_target = |rule: &Rule| rule.section == "log" && !["format", "level"].contains(&rule.key);
    let is_written = |rule: &&Rule| {
        !optional.contains(&rule.path().as_str()) && rule.section != TENANT && !is_target(rule)
    };
    for rule in RULES.iter().filter(is_written) {
        assert!(text.contains(&format!("{} = ", rule.key)), "{}", rule.path());
    }
}

/// Lines that look like a configuration, right and wrong.
fn line() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        proptest::sample::select(RULES).prop_map(|rule| rule.key.to_owned()),
        proptest::sample::select(RULES).prop_map(|rule| rule.path()),
        "[a-z_.\"]{0,9}",
    ];
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (0..30_u32).prop_map(|shift| (1_u64 << shift).to_string()),
        proptest::sample::select(
            &["true", "[]", "[1]", "'echo'", "'fused'", "{}", "1e9", "nan"][..]
        )
        .prop_map(str::to_owned),
        "\\PC{0,12}",
    ];
    prop_oneof![
        (word, value).prop_map(|(word, value)| format!("{word} = {value}")),
        proptest::sample::select(RULES).prop_map(|rule| format!("[{}]", rule.section)),
    ]
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = Config::parse(&text);
        let _ = Config::default().set(&text);
    }

    #[test]
    fn what_is_accepted_is_read_back_the_same(lines in proptest::collection::vec(line(), 0..6)) {
        let text = lines.join("\n");
        if let Ok(config) = Config::parse(&text) {
            prop_assert_eq!(Config::parse(&config.to_toml()), Ok(config));
        }
        let mut config = Config::default();
        for line in &lines {
            let before = config.clone();
            if config.set(line).is_err() {
                prop_assert_eq!(&config, &before);
            }
        }
        prop_assert_eq!(Config::parse(&config.to_toml()), Ok(config));
    }
}

#[test]
fn applications_attach_beside_the_admin_socket_unless_told_otherwise() {
    let mut config = Config::default();
    assert_eq!(config.apps_socket(), std::path::Path::new("/run/calisto/apps.sock"));
    config.set("admin_socket=/tmp/x/a.sock").expect("a path");
    assert_eq!(config.apps_socket(), std::path::Path::new("/tmp/x/apps.sock"));
    config.set("apps.socket=/run/y.sock").expect("a path");
    assert_eq!(config.apps_socket(), std::path::Path::new("/run/y.sock"));
}

#[test]
fn everything_that_is_wrong_is_found_in_the_order_of_the_text() {
    let text = "prots = []\n[steer]\ngroups = 1000\n[workers]\ncount = 0\n";
    let wrong = Config::examine(text).expect_err("three things are wrong");
    let lines: Vec<_> = wrong.iter().map(crate::ConfigError::line).collect();
    assert_eq!(lines, [Some(1), Some(3), Some(5)]);
    assert_eq!(Config::parse(text), Err(wrong[0].clone()));
}

#[test]
fn two_configurations_differ_in_the_keys_whose_values_do() {
    let config = |text: &str| Config::parse(text).expect("all of it is allowed");
    let one = config("ports = ['xdp:eth1']\n[steer]\nseed = 7\n");
    assert!(one.changes(&one).is_empty());
    let other = config("ports = ['xdp:eth2']\n[steer]\npolicy = 'modulo'\n[[tenant]]\nuid = 7\n");
    assert_eq!(one.changes(&other), ["ports", "steer.policy", "steer.seed", "tenant"]);
}
