//! What a scrape says of a daemon, and what it never says.

use admin::{
    CoresStatus, Counter, FallbackTotal, PortStatus, Status, ThreadCounters, WorkerStatus,
};

use crate::*;

fn counter(name: &str, value: u64) -> Counter {
    Counter { name: name.to_owned(), help: format!("{name}, explained."), value }
}

fn thread(thread: &str, counters: Vec<Counter>) -> ThreadCounters {
    ThreadCounters { thread: thread.to_owned(), counters }
}

fn port(fault: Option<&str>) -> PortStatus {
    PortStatus {
        port: "xdp:eth1".to_owned(),
        mode: "native, copy".to_owned(),
        mtu: 1500,
        trust_link: false,
        fault: fault.map(str::to_owned),
        counters: vec![counter("rx_packets", 7)],
    }
}

fn scrape() -> Scrape {
    let worker = WorkerStatus {
        id: 0,
        state: "active".to_owned(),
        cpu: None,
        numa_node: None,
        groups: 3,
        queued: 2,
        packets: 5,
    };
    let status = Status {
        pid: 1,
        version: "0.1.0".to_owned(),
        uptime_s: 1.5,
        arrangement: "fused".to_owned(),
        job: "echo".to_owned(),
        listen: Vec::new(),
        ports: vec![port(None), port(None)],
        workers: vec![worker],
        workers_wanted: 1,
        workers_asked: 1,
        policy: "sticky".to_owned(),
        groups: 128,
        frames: 4096,
        frames_free: 4000,
        numa_node: None,
        apps: 1,
        programs: 0,
        confinement: "whole".to_owned(),
        guardian: "well".to_owned(),
        ring_memory: None,
        descriptors: None,
        draining_ms: None,
    };
    Scrape {
        status,
        threads: vec![
            thread("dispatcher", vec![counter("drop_ring_full", 4)]),
            thread("worker 0", vec![counter("packets", 5), counter("tcp_flows", 2)]),
            thread("worker 1", vec![counter("packets", 6), counter("tcp_flows", 1)]),
            thread("app dns (3)", vec![counter("rx_packets", 8), counter("app_sent", 1)]),
            thread("app dns (4)", vec![counter("rx_packets", 9)]),
            thread("app a\"b\\ (5)", vec![counter("rx_packets", 1)]),
        ],
        cores: CoresStatus::default(),
        fallbacks: vec![FallbackTotal {
            reason: "firewall".to_owned(),
            message: "nftables has rules".to_owned(),
            count: 2,
        }],
        sockets: AppSockets::default(),
        took_s: 0.25,
    }
}

fn text(format: Format) -> String {
    render(families(&scrape()), format)
}

#[test]
fn every_counter_has_its_help_its_type_and_the_labels_of_whom_it_belongs_to() {
    let text = text(Format::OpenMetrics);
    for line in [
        "calisto_up 1.0",
        "# HELP calisto_dispatcher_drop_ring_full drop_ring_full, explained.",
        "# TYPE calisto_dispatcher_drop_ring_full counter",
        "calisto_dispatcher_drop_ring_full_total 4",
        "calisto_worker_packets_total{worker=\"0\"} 5",
        "calisto_worker_packets_total{worker=\"1\"} 6",
        "calisto_port_rx_packets_total{index=\"0\",port=\"xdp:eth1\"} 7",
        "calisto_port_rx_packets_total{index=\"1\",port=\"xdp:eth1\"} 7",
        "calisto_fallbacks_total{reason=\"firewall\"} 2",
        "calisto_uptime_seconds 1.5",
        "# TYPE calisto_worker_tcp_flows gauge",
        "calisto_worker_tcp_flows{worker=\"1\"} 1.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    let names: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let once: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), once.len(), "a family is told once");
}

#[test]
fn applications_of_one_name_are_one_series_and_their_names_break_no_line() {
    let text = text(Format::OpenMetrics);
    assert!(text.contains("calisto_app_rx_packets_total{app=\"dns\"} 17\n"), "{text}");
    assert!(text.contains("calisto_app_sent_total{app=\"dns\"} 1\n"), "{text}");
    assert!(text.contains(r#"calisto_app_rx_packets_total{app="a\"b\\"} 1"#), "{text}");
}

#[test]
fn names_beyond_the_bound_share_one_label() {
    let threads = (0..2 * APPS_MAX)
        .map(|app| thread(&format!("app a{app} ({app})"), vec![counter("rx_packets", 1)]));
    let mut sockets = AppSockets::default();
    for app in 0..2 * APPS_MAX {
        sockets.counts.insert((format!("a{app}"), "tcp".to_owned(), "ESTAB"), 1);
    }
    let scrape = Scrape { threads: threads.collect(), sockets, ..scrape() };
    let families = families(&scrape);
    for name in ["calisto_app_rx_packets", "calisto_app_sockets"] {
        let family = families.iter().find(|family| family.name == name).expect(name);
        assert_eq!(family.samples.len(), APPS_MAX + 1, "{name}");
        let others = Value::Count(APPS_MAX as u64);
        assert!(family.samples.iter().any(|sample| sample.value == others), "{name}");
    }
}

#[test]
fn the_older_format_names_counters_as_their_samples_do() {
    let text = text(Format::Text);
    assert!(text.contains("# TYPE calisto_dispatcher_drop_ring_full_total counter\n"), "{text}");
    assert!(text.contains("# HELP calisto_dispatcher_drop_ring_full_total drop_ring_full, ex"));
    assert!(text.contains("# TYPE calisto_up gauge\n") && !text.contains("EOF"), "{text}");
    assert_eq!(Format::accepted("*/*"), Format::Text);
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
}

#[test]
fn a_daemon_is_ready_until_something_keeps_it_from_serving_and_each_has_its_sentence() {
    assert_eq!(obstacles(&scrape()), [""; 0]);
    let mut scrape = scrape();
    scrape.status.ports[1] = port(Some("its interface was removed"));
    scrape.status.draining_ms = Some(200);
    scrape.status.workers[0].state = "retiring".to_owned();
    scrape.status.frames_free = 0;
    let obstacles = obstacles(&scrape).join("\n");
    for part in ["xdp:eth1", "was removed", "ending", "no worker", "no frame"] {
        assert!(obstacles.contains(part), "{obstacles}");
    }
}

#[test]
fn a_daemon_that_is_down_is_a_metric_too() {
    assert!(render(down(), Format::Text).ends_with("calisto_up 0.0\n"));
}
