//! Whether the machine is a real one, and whether this is a container on it.

use std::path::Path;

use crate::Finding;
use crate::text::{field, read, read_word};

/// What kind of machine this is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineFacts {
    /// Whether the processor says that a hypervisor is under it; `None`: not known (arm64 does not
    /// say).
    pub hypervisor: Option<bool>,
    /// Maker and product, of the firmware's tables; empty where there are none.
    pub product: String,
    /// What manages the container that we are in, such as `docker`.
    pub container: Option<String>,
}

pub(crate) fn gather() -> MachineFacts {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let dmi = |name: &str| read_word(format!("/sys/class/dmi/id/{name}"));
    let words: Vec<String> = ["sys_vendor", "product_name"].into_iter().filter_map(dmi).collect();
    let marks = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    let marked = marks.into_iter().find(|(path, _)| Path::new(path).exists());
    MachineFacts {
        hypervisor: hypervisor(&cpuinfo),
        product: words.join(" "),
        container: read_word("/run/systemd/container")
            .filter(|name| !name.is_empty())
            .or_else(|| marked.map(|(_, name)| name.to_owned())),
    }
}

/// Whether /proc/cpuinfo has the processor flag of virtual machines (x86 only).
fn hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = field(cpuinfo, "flags")?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// What that means.
pub(crate) fn judge(facts: &MachineFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let product = &facts.product;
    let named = if product.is_empty() { String::new() } else { format!(" ({product})") };
    match facts.hypervisor {
        Some(false) => findings.push(Finding::fine("machine", format!("is no virtual one{named}"))),
        Some(true) => findings.push(
            Finding::note("machine", format!("is a virtual one{named}"))
                .cost(
                    "waking a CPU takes a detour by the hypervisor, longer if that is itself a \
                     guest, and CPU time may be taken away",
                )
                .mend("see the lines wake and stolen time for how much"),
        ),
        None if product.is_empty() => {
            findings.push(Finding::note("machine", "does not tell whether it is a virtual one"));
        }
        None => findings.push(Finding::fine("machine", format!("is a {product}"))),
    }
    if let Some(container) = &facts.container {
        findings.push(
            Finding::note("container", format!("of {container}"))
                .cost("only the interfaces of its own network namespace can be used")
                .mend("to use the machine's: docker run --network host --privileged …"),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Level;

    #[test]
    fn a_virtual_machine_is_noted_and_a_real_one_is_fine() {
        let product = "QEMU Standard PC".to_owned();
        let guest = MachineFacts { hypervisor: Some(true), product, container: None };
        let finding = &judge(&guest)[0];
        assert_eq!(
            (finding.level, finding.what.as_str()),
            (Level::Note, "is a virtual one (QEMU Standard PC)")
        );
        let real = MachineFacts { hypervisor: Some(false), ..MachineFacts::default() };
        assert_eq!(judge(&real)[0].level, Level::Fine);
        assert_eq!(judge(&MachineFacts::default())[0].level, Level::Note);
    }

    #[test]
    fn a_container_is_told_by_its_name() {
        let facts =
            MachineFacts { container: Some("podman".to_owned()), ..MachineFacts::default() };
        assert!(judge(&facts).iter().any(|f| f.subject == "container" && f.what == "of podman"));
    }

    #[test]
    fn the_flag_of_virtual_machines_is_a_word_of_its_own() {
        assert_eq!(hypervisor("flags\t\t: fpu hypervisor sse\n"), Some(true));
        assert_eq!(hypervisor("flags\t\t: fpu hypervisor2\n"), Some(false));
        assert_eq!(hypervisor("Features : fp asimd\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".*") {
            hypervisor(&text);
        }
    }
}
