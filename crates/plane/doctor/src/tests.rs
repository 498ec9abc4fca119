//! Whole reports: of this machine, of a namespace made for it, and without rights.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use testbed::{Testbed, TestbedConfig};

use crate::kernel::KernelVersion;
use crate::{Args, Finding, Level, Report, run};

fn of<'a>(report: &'a Report, subject: &str) -> &'a Finding {
    let found = report.findings.iter().find(|finding| finding.subject == subject);
    found.unwrap_or_else(|| panic!("no line about {subject}:\n{}", report.table()))
}

#[test]
fn the_report_of_a_veth_says_native_no_zero_copy_its_queues_and_its_mtu() {
    let config = TestbedConfig { queues: 2, mtu: 1400, ..TestbedConfig::default() };
    let bed = Testbed::new(config).expect("root makes namespaces");
    let args = Args { quick: true, ..Args::default() };
    let report = bed.server().enter(|| look(&args)).expect("the namespace is there");
    let report = report.expect("nothing was asked for that is not there");
    assert_eq!(of(&report, "veth0 xdp").level, Level::Fine);
    assert!(of(&report, "veth0 xdp").what.starts_with("native (veth"), "{}", report.table());
    // Linux 6.3 is the first that tells; before, the driver's name has to do.
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let tells = KernelVersion::of_release(&release) >= Some(KernelVersion(6, 3));
    let said = of(&report, "veth0 xdp").what.contains("says the kernel");
    assert_eq!(said, tells, "{release}: {}", report.table());
    assert_eq!(of(&report, "veth0 zero copy").level, Level::Note);
    assert!(of(&report, "veth0 zero copy").what.starts_with("no (veth"), "{}", report.table());
    assert!(of(&report, "veth0 queues").what.starts_with('2'), "{}", report.table());
    assert!(of(&report, "veth0 mtu").what.starts_with("1400:"), "{}", report.table());
    assert_eq!(of(&report, "veth0 program").what, "none is attached");
    assert_eq!(of(&report, "veth0 offloads").level, Level::Fine, "the bed switched them off");
    assert_eq!(of(&report, "packet filter").level, Level::Fine, "a new namespace has no rules");
    assert_eq!(of(&report, "socket ends").level, Level::Fine);
    let ports = of(&report, "net.ipv4.ip_local_port_range");
    assert_eq!(ports.level, Level::Fine, "a new namespace has the kernel's own");
    let nics = report.findings.iter().filter(|finding| finding.subject.ends_with(" mtu")).count();
    assert_eq!(nics, 1, "not loopback, not those of other namespaces:\n{}", report.table());
}

#[test]
fn a_veth_with_offloads_is_well_and_a_large_mtu_is_told_what_it_costs() {
    let config = TestbedConfig { mtu: 9000, offloads: true, ..TestbedConfig::default() };
    let bed = Testbed::new(config).expect("root makes namespaces");
    let args = Args { nic: vec!["veth0".to_owned()], quick: true, ..Args::default() };
    let report = bed.client().enter(|| look(&args)).expect("the namespace is there");
    let report = report.expect("the interface is there");
    assert_eq!(of(&report, "veth0 mtu").mend.as_deref(), Some("ip link set dev veth0 mtu 3498"));
    assert!(of(&report, "veth0 offloads").what.contains("leaves open"));
}

#[test]
fn a_tap_is_known_by_its_driver_and_waits_for_no_further_packets() {
    let bed = Testbed::new(TestbedConfig::default()).expect("root makes namespaces");
    let made =
        bed.client().command("ip").args(["tuntap", "add", "dev", "tap0", "mode", "tap"]).status();
    assert!(made.expect("ip is installed").success());
    let args = Args { nic: vec!["tap0".to_owned()], quick: true, ..Args::default() };
    let (coalescing, report) = bed
        .client()
        .enter(|| (sys::ethtool::coalescing("tap0"), look(&args)))
        .expect("the namespace is there");
    let report = report.expect("the interface is there");
    assert!(of(&report, "tap0 xdp").what.starts_with("native (tun"), "{}", report.table());
    assert_eq!(of(&report, "tap0 link").what, "is down");
    // The kernel's driver of TAPs has counts of packets, and no times.
    let none = sys::ethtool::Coalescing { rx_micros: 0, rx_adaptive: false };
    assert_eq!(coalescing, Ok(none));
}

#[test]
fn the_whole_report_of_this_machine_measures_too_and_is_json() {
    let report = look(&Args::default()).expect("nothing was asked for that is not there");
    for subject in
        ["kernel", "rights", "cpus", "memory", "clock", "stolen time", "spinning", "wake"]
    {
        of(&report, subject);
    }
    assert!(report.exit_ok(), "root can open ports:\n{}", report.table());
    let json = serde_json::to_value(&report).expect("it is plain data");
    let levels = ["fine", "note", "worse", "missing"];
    for finding in json["findings"].as_array().expect("a list") {
        assert!(levels.contains(&finding["level"].as_str().expect("a word")), "{finding}");
    }
    assert_eq!(report.table().lines().count(), report.findings.len() + 1);
}

#[test]
fn what_costs_something_says_what_and_nearly_all_of_it_says_what_to_do() {
    let report = look(&Args { quick: true, ..Args::default() }).expect("nothing special was asked");
    for finding in report.findings.iter().filter(|finding| finding.level >= Level::Worse) {
        assert!(finding.cost.is_some() && finding.mend.is_some(), "{finding}");
    }
}

#[test]
fn an_interface_that_is_not_there_is_a_usage_error_that_lists_those_there_are() {
    let args = Args { nic: vec!["none-such0".to_owned()], quick: true, ..Args::default() };
    let error = look(&args).expect_err("nobody has it");
    assert!(error.is_usage());
    assert!(error.to_string().contains("interfaces here:"), "{error}");
}

#[test]
fn without_rights_there_is_a_whole_report_and_it_says_that_no_port_is_possible() {
    // Capabilities belong to threads: this one gives up its own, and those that it starts have
    // none.
    let report = std::thread::spawn(|| {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).expect("nobody is refused to give up rights");
        look(&Args::default())
    });
    let report = report.join().expect("it does not panic").expect("and is no error");
    let rights = of(&report, "rights");
    assert_eq!(rights.level, Level::Missing);
    assert_eq!(rights.what, "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON");
    assert!(!report.exit_ok());
    assert_eq!(of(&report, "packet filter").level, Level::Note, "{}", report.table());
    assert_eq!(of(&report, "socket ends").level, Level::Fine, "anybody may hear of them");
    assert_eq!(of(&report, "spinning").subject, "spinning", "measuring needs no rights");
}

/// As an operator looks who says nothing about sockets.
fn look(args: &Args) -> Result<Report, crate::Error> {
    run(args, std::path::Path::new("/run/calisto/admin.sock"))
}
