//! Native XDP, zero copy, and the program that is attached now.

use super::drivers::known;
use super::{Context, NicFacts};
use crate::Finding;
use sys::bpf_query::OWN_PROGRAM;

/// What an interface can do, and who says so.
struct Abilities {
    native: bool,
    zero_copy: bool,
    source: &'static str,
}

fn abilities(facts: &NicFacts) -> Option<Abilities> {
    if let Some(features) = facts.features {
        return Some(Abilities {
            native: features.native && features.redirect,
            zero_copy: features.zero_copy,
            source: "says the kernel",
        });
    }
    let driver = known(&facts.driver.as_ref()?.name)?;
    let kernel = facts.kernel?;
    Some(Abilities {
        native: kernel >= driver.native,
        zero_copy: driver.zero_copy.is_some_and(|since| kernel >= since),
        source: "by driver and kernel version; the kernel itself tells from 6.3 on",
    })
}

/// What that means.
pub(super) fn judge(facts: &NicFacts, context: &Context) -> Vec<Finding> {
    let mut findings = vec![mode(facts), zero_copy(facts)];
    findings.push(program(facts, context));
    findings
}

fn driver_name(facts: &NicFacts) -> &str {
    facts.driver.as_ref().map_or("no driver", |driver| driver.name.as_str())
}

fn mode(facts: &NicFacts) -> Finding {
    let subject = format!("{} xdp", facts.name);
    let name = driver_name(facts);
    match abilities(facts) {
        Some(Abilities { native: true, source, .. }) => {
            Finding::fine(subject, format!("native ({name}; {source})"))
        }
        Some(Abilities { native: false, source, .. }) => {
            let finding = Finding::worse(subject, format!("generic only ({name}; {source})")).cost(
                "packets become socket buffers before they are ours, and are copied once more",
            );
            match known(name).map(|driver| driver.native) {
                None => finding.mend("use another NIC where the rate matters"),
                Some(since) if facts.kernel.is_some_and(|kernel| kernel < since) => {
                    finding.mend(format!("a kernel of {}.{} or later", since.0, since.1))
                }
                Some(_) => finding.mend(format!(
                    "the driver can, set up for it: ethtool -K {0} lro off; and if that is not it: \
                     ethtool -L {0} combined 1",
                    facts.name
                )),
            }
        }
        None => Finding::note(subject, format!("native or not is not known ({name})"))
            .cost("where the driver has no native mode, generic is taken: one copy more")
            .mend("calisto status tells the mode of a port once the daemon runs"),
    }
}

fn zero_copy(facts: &NicFacts) -> Finding {
    let subject = format!("{} zero copy", facts.name);
    let name = driver_name(facts);
    match abilities(facts) {
        Some(Abilities { zero_copy: true, source, .. }) => {
            Finding::fine(subject, format!("yes ({name}; {source})"))
        }
        Some(Abilities { zero_copy: false, source, .. }) => {
            let finding = Finding::note(subject, format!("no ({name}; {source})"))
                .cost("the kernel copies each packet, and each batch to send takes a system call");
            match known(name).and_then(|driver| driver.zero_copy) {
                Some(since) if facts.kernel.is_some_and(|kernel| kernel < since) => {
                    finding.mend(format!("a kernel of {}.{} or later", since.0, since.1))
                }
                _ => finding,
            }
        }
        None => Finding::note(subject, format!("not known ({name})"))
            .cost("where the driver has none, the kernel copies each packet")
            .mend("calisto status tells the mode of a port once the daemon runs"),
    }
}

fn program(facts: &NicFacts, context: &Context) -> Finding {
    let name = &facts.name;
    let subject = format!("{name} program");
    let Some(program) = facts.program else {
        return Finding::fine(subject, "none is attached");
    };
    let id = program.program_id;
    let mode = if program.generic { "generic" } else { "native" };
    let what = format!("{id} is attached ({mode})");
    match facts.program_name.as_deref() {
        // Whoever asks may mean another daemon, or a chain may have this interface.
        Some(OWN_PROGRAM) => Finding::note(subject, format!("{id} of Calisto is attached ({mode})"))
            .cost("a daemon or a chain has this interface, and no other can use it")
            .mend(
                "calisto status shows the ports of a daemon (with --admin PATH those of another one), \
                 calisto nf stats those of chains",
            ),
        None if context.daemon_runs => Finding::note(subject, what)
            .cost("the running daemon's, probably; a second daemon cannot use this interface")
            .mend(format!("bpftool prog show id {id}")),
        _ => Finding::worse(subject, what)
            .cost("an xdp port does not chain after another program, and refuses to open")
            .mend(format!(
                "end what attached it (bpftool prog show id {id}), or: ip link set dev {name} xdp off"
            )),
    }
}

#[cfg(test)]
mod tests {
    use sys::ethtool::Driver;
    use sys::interface::XdpAttached;
    use sys::netdev::XdpFeatures;

    use super::super::tests::{context, ice, veth};
    use super::*;
    use crate::Level;
    use crate::kernel::KernelVersion;

    fn with_driver(name: &str, kernel: KernelVersion) -> NicFacts {
        let driver = Some(Driver { name: name.to_owned(), bus: String::new() });
        NicFacts { driver, features: None, kernel: Some(kernel), ..ice() }
    }

    #[test]
    fn what_the_kernel_says_counts_and_is_named() {
        let findings = judge(&veth(), &context());
        assert_eq!(findings[0].what, "native (veth; says the kernel)");
        assert_eq!((findings[0].level, findings[1].level), (Level::Fine, Level::Note));
        let findings = judge(&ice(), &context());
        assert_eq!(findings[1].what, "yes (ice; says the kernel)");
    }

    #[test]
    fn an_old_kernel_is_judged_by_its_drivers() {
        let cases = [
            ("mlx5_core", KernelVersion(6, 1), Level::Fine, Level::Fine),
            ("igc", KernelVersion(5, 13), Level::Fine, Level::Note),
            ("igc", KernelVersion(5, 14), Level::Fine, Level::Fine),
            ("ena", KernelVersion(5, 10), Level::Worse, Level::Note),
            ("virtio_net", KernelVersion(6, 1), Level::Fine, Level::Note),
            ("e1000e", KernelVersion(6, 1), Level::Note, Level::Note),
        ];
        for (driver, kernel, native, zero_copy) in cases {
            let findings = judge(&with_driver(driver, kernel), &context());
            let levels = (findings[0].level, findings[1].level);
            assert_eq!(levels, (native, zero_copy), "{driver} {kernel:?}: {findings:?}");
        }
        let findings = judge(&with_driver("virtio_net", KernelVersion(6, 1)), &context());
        assert_eq!(findings[1].mend.as_deref(), Some("a kernel of 6.13 or later"));
        assert!(findings[0].what.contains("by driver and kernel version"), "{findings:?}");
    }

    #[test]
    fn a_driver_that_could_but_does_not_is_told_what_to_change() {
        let facts = NicFacts { features: Some(XdpFeatures::default()), ..ice() };
        let finding = &judge(&facts, &context())[0];
        assert_eq!(finding.level, Level::Worse);
        assert!(finding.mend.as_deref().is_some_and(|m| m.contains("ethtool -K eth1 lro off")));
    }

    #[test]
    fn a_driver_that_cannot_redirect_has_no_native_mode_for_us() {
        let features = Some(XdpFeatures { native: true, ..XdpFeatures::default() });
        let finding = &judge(&NicFacts { features, ..ice() }, &context())[0];
        assert_eq!(finding.level, Level::Worse);
    }

    #[test]
    fn an_attached_program_is_in_the_way_unless_it_is_the_daemons() {
        let program = Some(XdpAttached { program_id: 37, generic: true });
        let facts = NicFacts { program, ..ice() };
        let foreign = &judge(&facts, &context())[2];
        assert_eq!(foreign.level, Level::Worse);
        assert_eq!(foreign.what, "37 is attached (generic)");
        let ours = &judge(&facts, &Context { daemon_runs: true, ..context() })[2];
        assert_eq!(ours.level, Level::Note);
        assert_eq!(judge(&ice(), &context())[2].what, "none is attached");
    }

    #[test]
    fn a_program_of_ours_is_not_in_the_way_wherever_its_daemon_or_chain_listens() {
        let program = Some(XdpAttached { program_id: 37, generic: false });
        let named = |name: &str| NicFacts { program, program_name: Some(name.to_owned()), ..ice() };
        for daemon_runs in [false, true] {
            let context = Context { daemon_runs, ..context() };
            let ours = &judge(&named("calisto"), &context)[2];
            assert_eq!(ours.level, Level::Note, "{ours:?}");
            let mend = ours.mend.as_deref().unwrap_or_default();
            assert!(mend.contains("calisto nf stats") && !mend.contains("xdp off"), "{ours:?}");
            let foreign = &judge(&named("xdp_filter"), &context)[2];
            assert_eq!(foreign.level, Level::Worse, "{foreign:?}");
        }
    }
}
