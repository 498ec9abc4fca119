//! The manual pages of the functions: what stands at the start of each one's file.

/// Kinds of functions, each with the text of the file that begins with its manual page.
const FILES: &[(&str, &str)] = &[
    ("esp", include_str!("esp.rs")),
    ("l2", include_str!("l2.rs")),
    ("router", include_str!("router.rs")),
    ("acl", include_str!("acl.rs")),
    ("policer", include_str!("policer.rs")),
    ("balancer", include_str!("balancer.rs")),
    ("nat", include_str!("nat.rs")),
    ("firewall", include_str!("firewall.rs")),
    ("tunnel", include_str!("tunnel.rs")),
    ("mirror", include_str!("mirror.rs")),
    ("shared-object", include_str!("../../plugin/src/foreign.rs")),
];

/// What kinds of functions have a page.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(kind, _)| *kind)
}

/// The manual page of the functions of a kind; nothing when there is no such kind.
pub fn page(kind: &str) -> Option<String> {
    let (_, file) = FILES.iter().find(|(name, _)| *name == kind)?;
    let mut page = String::new();
    for line in file.lines().map_while(|line| line.strip_prefix("//!")) {
        page.push_str(line.strip_prefix(' ').unwrap_or(line));
        page.push('\n');
    }
    Some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_says_what_an_operator_must_know() {
        for kind in kinds() {
            let page = page(kind).expect("a kind with a page");
            assert!(page.starts_with(&format!("{kind}: ")), "{page}");
            for section in ["WHAT IT DOES", "PARAMETERS", "COUNTERS", "STANDARDS", "LIMITS"] {
                assert!(page.lines().any(|line| line == section), "{kind}: no {section}");
            }
            assert!(page.lines().all(|line| line.len() <= 110), "{kind}");
        }
        assert_eq!(page("none"), None);
    }
}
