//! `kind = "firewall"`.

use calisto_nf::acl::{Action, RULES_MAX};
use calisto_nf::firewall::{FirewallError, FirewallRule, FirewallSettings, ZONES_MAX};
use calisto_nf::track::{CONNECTIONS_MAX, TrackSettings};
use calisto_nf::{Firewall, Prefix};
use toml::de::DeValue;

use super::selector;
use crate::file::FileError;
use crate::file::section::{Section, Source, flag, list, name, number, word};
use crate::file::slice::SlicePart;

/// Rules about connections, and how these are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirewallPart {
    /// All but the ports of zones.
    pub settings: FirewallSettings,
    /// Zones: name, and the interfaces of its ports.
    pub zones: Vec<(String, Vec<String>)>,
}

const ACTIONS: &[&str] = &["permit", "deny"];
const GROUPS_MAX: usize = 256;
const PREFIXES_MAX: usize = 4096;
const PORTS_MAX: usize = 64;

/// A group: what it is called, and its prefixes.
type Group = (String, Vec<Prefix>);

pub(super) fn read(section: &mut Section<'_>) -> Result<FirewallPart, FileError> {
    let default = section.optional("default", word(ACTIONS))?.map_or(Action::Deny, action);
    let not_ip = section.optional("not_ip", word(ACTIONS))?.map_or(Action::Permit, action);
    let track = track(section)?;
    let zones = section.sections("zones", 0..=ZONES_MAX, |zone| {
        let called = zone.required("name", "name = \"inside\"", name)?;
        let ports = zone.required("ports", "ports = [\"eth1\"]", list(1..=PORTS_MAX, interface))?;
        Ok((called, ports))
    })?;
    let zones: Vec<_> = zones.into_iter().map(|(zone, _)| zone).collect();
    let groups = section.sections("groups", 0..=GROUPS_MAX, |group| {
        let called = group.required("name", "name = \"servers\"", name)?;
        let example = "prefixes = [\"10.0.0.0/8\"]";
        let prefixes = group.required("prefixes", example, list(1..=PREFIXES_MAX, prefix))?;
        Ok((called, prefixes))
    })?;
    let groups: Vec<Group> = groups.into_iter().map(|(group, _)| group).collect();
    let rules =
        section.sections("rules", 0..=RULES_MAX, |section| rule(section, &zones, &groups))?;
    let (rules, lines): (Vec<FirewallRule>, Vec<usize>) = rules.into_iter().unzip();
    let settings = FirewallSettings { rules, default, not_ip, zones: Vec::new(), track };
    // Whether the rules make sense shows without any connections.
    let small = TrackSettings { connections: 1, ..track };
    let tried = Firewall::new(&FirewallSettings { track: small, ..settings.clone() });
    tried.map_err(|wrong| match wrong {
        FirewallError::Rule { index, error } => {
            section.error_at(lines.get(index).copied(), "rules", error.to_string())
        }
        wrong @ FirewallError::TooMany => section.error("rules", wrong.to_string()),
    })?;
    Ok(FirewallPart { settings, zones })
}

fn track(section: &mut Section<'_>) -> Result<TrackSettings, FileError> {
    let default = TrackSettings::default();
    let connections = section.optional("connections", number(1..=CONNECTIONS_MAX as u64))?;
    let unanswered = section.optional("unanswered_each", number(1..=u64::from(u32::MAX)))?;
    let picks_up = section.optional("picks_up", flag)?;
    Ok(TrackSettings {
        connections: connections.map_or(default.connections, |n| n as usize),
        unanswered_each: unanswered.map_or(default.unanswered_each, |n| n as u32),
        picks_up: picks_up.unwrap_or(default.picks_up),
        ..default
    })
}

fn rule(
    section: &mut Section<'_>,
    zones: &[(String, Vec<String>)],
    groups: &[Group],
) -> Result<FirewallRule, FileError> {
    let said = section.required("action", "action = \"permit\"", word(ACTIONS))?;
    let zone = |value: &DeValue<'_>| one_of(value, zones.iter().map(|(name, _)| &**name));
    let group = |value: &DeValue<'_>| one_of(value, groups.iter().map(|(name, _)| &**name));
    let from = section.optional("from", zone)?;
    let source_group = section.optional("source_group", group)?;
    let destination_group = section.optional("destination_group", group)?;
    let selector = selector::read(section)?;
    for (key, is_twice) in [
        ("source_group", source_group.is_some() && selector.source.is_some()),
        ("destination_group", destination_group.is_some() && selector.destination.is_some()),
    ] {
        if is_twice {
            return Err(section.error(key, "stands beside a prefix: only one of the two may"));
        }
    }
    let prefixes = |group: Option<usize>| group.map_or(Vec::new(), |at| groups[at].1.clone());
    Ok(FirewallRule {
        action: action(said),
        from,
        selector,
        sources: prefixes(source_group),
        destinations: prefixes(destination_group),
    })
}

/// The place of a name among those that were given above.
fn one_of<'a>(
    value: &DeValue<'_>,
    mut names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, String> {
    let all: Vec<&str> = names.clone().collect();
    let found = value.as_str().and_then(|text| names.position(|name| name == text));
    found.ok_or_else(|| match all[..] {
        [] => "the name of one that stands above, of which there is none".to_owned(),
        _ => format!("one of {}", all.join(", ")),
    })
}

pub(super) fn interface(value: &DeValue<'_>) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "the name of an interface".to_owned())
}

fn prefix(value: &DeValue<'_>) -> Result<Prefix, String> {
    let read = value.as_str().and_then(|text| text.parse().ok());
    read.ok_or_else(|| "a prefix, such as \"10.0.0.0/8\"".to_owned())
}

fn action(place: usize) -> Action {
    if ACTIONS[place] == "permit" { Action::Permit } else { Action::Deny }
}

/// The ports of zones are ports of the slices, and each is of one zone.
pub(super) fn agree(
    source: &Source<'_>,
    line: usize,
    slice: &SlicePart,
    part: &FirewallPart,
) -> Result<(), FileError> {
    let mut seen: Vec<&str> = Vec::new();
    for interface in part.zones.iter().flat_map(|(_, interfaces)| interfaces) {
        let says = if slice.port_number(interface).is_none() {
            format!("names {interface:?}, which is no port of the slices")
        } else if seen.contains(&&**interface) {
            format!("names {interface:?} twice: a port is of one zone")
        } else {
            seen.push(interface);
            continue;
        };
        return Err(source.error(Some(line), "function.zones", says));
    }
    Ok(())
}
