//! `counters.md`: every counter with its sentence.

use calisto_nf::acl::AclCounters;
use calisto_nf::balancer::BalancerCounters;
use calisto_nf::esp::EspCounters;
use calisto_nf::firewall::FirewallCounters;
use calisto_nf::mirror::MirrorCounters;
use calisto_nf::nat::NatCounters;
use calisto_nf::policer::PolicerCounters;
use calisto_nf::router::RouterCounters;
use calisto_nf::tunnel::TunnelCounters;
use datapath::cores::CoreEvent;
use datapath::counters::{DispatchEvent, WorkerEvent};
use port::hook::HookCounter;
use stack::SocketCounts;

use super::{GENERATED, Table, holds};

const ABOUT: &str = "\
Every drop has a name. `calisto stats --help-text` prints these counters with their values, `calisto nf\n\
stats NAME --help-text` those of a chain. Counters only grow while a process lives.\n";

#[test]
fn counters() {
    let mut page = format!("# Counters\n\n{GENERATED}\n{ABOUT}");
    let mut add = |title: &str, about: &str, rows: &[(&str, &str)]| {
        let mut table = Table::new(&["counter", "counts"]);
        for (name, help) in rows {
            table.row(&[&format!("`{name}`"), help]);
        }
        page.push_str(&format!("\n## {title}\n\n{about}\n\n{}", table.0));
    };
    let rows: Vec<_> = DispatchEvent::ALL.iter().map(|one| (one.name(), one.help())).collect();
    add("The dispatcher", "Those with `app` in their name belong to one application each.", &rows);
    let rows: Vec<_> = wire::NotOurs::ALL.iter().map(|one| (one.name(), one.help())).collect();
    add(
        "Packets that are not ours",
        "Left to the kernel, or answered beside the data path.",
        &rows,
    );
    let rows: Vec<_> = wire::Malformed::ALL.iter().map(|one| (one.name(), one.help())).collect();
    add("Malformed packets", "Counted and dropped.", &rows);
    let rows: Vec<_> = WorkerEvent::ALL.iter().map(|one| (one.name(), one.help())).collect();
    add("A worker", "Each worker has its own.", &rows);
    let names = SocketCounts::new();
    let names: Vec<_> = names.iter().map(|(name, help, _)| (format!("tcp_{name}"), help)).collect();
    let rows: Vec<_> = names.iter().map(|(name, help)| (name.as_str(), *help)).collect();
    add("TCP and sockets", "Of a worker that serves TCP or the sockets of programs.", &rows);
    let each = port::PortCounters::default().each();
    let rows: Vec<_> = each.iter().map(|(name, _, help)| (*name, *help)).collect();
    add("A port", "Shown by `calisto status -j`, and for the ports of a chain.", &rows);
    let rows: Vec<_> = CoreEvent::ALL.iter().map(|one| (one.name(), one.help())).collect();
    add("Cores", "Shown by `calisto cores`.", &rows);
    let each = calisto_slice::SliceCounters::default().each();
    let rows: Vec<_> = each.iter().map(|(name, _, help)| (*name, *help)).collect();
    add("A slice", "Shown by `calisto nf stats`.", &rows);
    let mut rows = Vec::new();
    RouterCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    let of_hook = HookCounter::ALL.map(|counter| (counter.name(), counter.help()));
    add(
        "Functions in the hook",
        "In the figures of the router, or of the first `acl` where the router is not in the hook.",
        &of_hook,
    );
    add("Function `router`", "", &std::mem::take(&mut rows));
    AclCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `acl`", "", &std::mem::take(&mut rows));
    PolicerCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `policer`", "", &std::mem::take(&mut rows));
    calisto_nf::l2::L2Counters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `l2`", "", &std::mem::take(&mut rows));
    FirewallCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `firewall`", "", &std::mem::take(&mut rows));
    NatCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `nat`", "", &std::mem::take(&mut rows));
    BalancerCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `balancer`", "", &std::mem::take(&mut rows));
    TunnelCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `tunnel`", "", &std::mem::take(&mut rows));
    MirrorCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `mirror`", "", &std::mem::take(&mut rows));
    let help = "Packets of which the object said what makes no sense, dropped.";
    add("Function `shared-object`", "Beside those that it has itself.", &[("misbehaved", help)]);
    EspCounters::default().each(&mut |name, help, _| rows.push((name, help)));
    add("Function `esp`", "", &rows);
    for kind in calisto_nf::manual::kinds() {
        assert!(
            page.contains(&format!("## Function `{kind}`")),
            "the page has no counters of {kind}"
        );
    }
    holds("counters.md", &page.replace("\n\n\n", "\n"));
}
