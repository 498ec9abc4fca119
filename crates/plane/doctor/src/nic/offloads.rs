//! What the NIC does to packets before a program sees them.

use sys::ethtool::Offload;

use super::NicFacts;
use crate::Finding;

/// What that means.
pub(super) fn judge(facts: &NicFacts) -> Vec<Finding> {
    let name = &facts.name;
    let subject = || format!("{name} offloads");
    let driver = facts.driver.as_ref().map_or("", |driver| driver.name.as_str());
    let mut findings = Vec::new();
    if let Some(flags) = facts.flags {
        if flags.large_receive {
            findings.push(
                Finding::worse(subject(), "the NIC joins received TCP packets (LRO)")
                    .cost("drivers refuse native XDP with it, and joined packets fit no frame")
                    .mend(format!("ethtool -K {name} lro off")),
            );
        }
        // Virtual drivers carry the tag beside a packet, and put it back for a program.
        if flags.vlan_strip && has_hardware(facts) {
            findings.push(
                Finding::note(subject(), "the NIC cuts VLAN tags out of received packets")
                    .cost("packets of any VLAN look untagged to a native program")
                    .mend(format!("ethtool -K {name} rxvlan off (where VLANs are used)")),
            );
        }
    }
    if driver == "veth" && facts.offloads.contains(&Offload::TxChecksum) {
        findings.push(Finding::fine(
            subject(),
            "of veth leave checksums to hardware that is not there: a port accepts what the kernel \
             at the other end leaves open",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::fine(subject(), "leave received packets as they are"));
    }
    findings
}

/// Whether it hangs on a bus.
pub(super) fn has_hardware(facts: &NicFacts) -> bool {
    facts.driver.as_ref().is_some_and(|driver| !driver.bus.is_empty())
}

#[cfg(test)]
mod tests {
    use sys::ethtool::Flags;

    use super::super::tests::{ice, veth};
    use super::*;
    use crate::Level;

    fn with(large_receive: bool, vlan_strip: bool) -> NicFacts {
        let flags = Some(Flags { large_receive, vlan_strip, ntuple: false });
        NicFacts { flags, ..ice() }
    }

    #[test]
    fn each_offload_that_changes_packets_has_its_cure() {
        let lro = &judge(&with(true, false))[0];
        assert_eq!(
            (lro.level, lro.mend.as_deref()),
            (Level::Worse, Some("ethtool -K eth1 lro off"))
        );
        assert_eq!(judge(&with(false, true))[0].level, Level::Note);
        assert_eq!(judge(&with(true, true)).len(), 2);
        assert_eq!(judge(&with(false, false))[0].level, Level::Fine);
    }

    #[test]
    fn a_veth_is_told_of_the_checksums_that_nobody_computes() {
        let offloads = vec![Offload::TxChecksum];
        let real = NicFacts { offloads: offloads.clone(), ..ice() };
        assert_eq!(judge(&real)[0].level, Level::Fine, "hardware computes them");
        let open = &judge(&NicFacts { offloads, ..veth() })[0];
        assert!(open.level == Level::Fine && open.what.contains("leaves open"), "{open:?}");
        assert!(!judge(&veth())[0].what.contains("leaves open"));
    }
}
