//! Which links a connection's packets take.

use load::Random;

use super::plan::LeafSpine;
use crate::Depths;
use crate::link::{Link, LinkCounts};

/// The links from one host to another, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    links: [u32; 4],
    hops: u8,
}

impl Path {
    #[inline]
    pub(super) fn link(&self, hop: u8) -> Option<u32> {
        (hop < self.hops).then(|| self.links[usize::from(hop)])
    }
}

/// Whose queue it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Site {
    /// A host's NIC.
    Host,
    /// The port of a leaf that a host is at.
    Edge,
    /// Between leaf and spine, either way.
    Inside,
}

/// All links, and how full they were found.
#[derive(Debug)]
pub(super) struct Links {
    leaves: u32,
    spines: u32,
    hosts_per_leaf: u32,
    pub(super) all: Vec<Link>,
    pub(super) edge: Depths,
    pub(super) inside: Depths,
}

impl Links {
    pub(super) fn new(plan: &LeafSpine) -> Self {
        let &LeafSpine { leaves, spines, hosts_per_leaf, host_link, fabric_link } = plan;
        let hosts = plan.hosts() as usize;
        let mut all = vec![Link::new(host_link); 2 * hosts];
        // A NIC neither drops nor marks: its queue is bounded by whoever fills it.
        let nic = crate::link::LinkPlan { queue_bytes: u32::MAX, mark_bytes: None, ..host_link };
        all[..hosts].fill(Link::new(nic));
        all.extend(vec![Link::new(fabric_link); 2 * (leaves * spines) as usize]);
        let (edge, inside) = (Depths::default(), Depths::default());
        Self { leaves, spines, hosts_per_leaf, all, edge, inside }
    }

    fn hosts(&self) -> u32 {
        self.leaves * self.hosts_per_leaf
    }

    /// The way from one host to another; who changes leaves takes a spine that `random` chooses.
    pub(super) fn path(&self, from: u32, to: u32, random: &mut Random) -> Path {
        let (first, last) = (from, self.hosts() + to);
        let (leaf, other) = (from / self.hosts_per_leaf, to / self.hosts_per_leaf);
        if leaf == other {
            return Path { links: [first, last, 0, 0], hops: 2 };
        }
        let spine = random.below(self.spines);
        let up = 2 * self.hosts() + leaf * self.spines + spine;
        let down = 2 * self.hosts() + (self.leaves + other) * self.spines + spine;
        Path { links: [first, up, down, last], hops: 4 }
    }

    fn place(&self, link: u32) -> Site {
        match link {
            link if link < self.hosts() => Site::Host,
            link if link < 2 * self.hosts() => Site::Edge,
            _ => Site::Inside,
        }
    }

    /// Somebody found so much waiting at a link.
    #[inline]
    pub(super) fn note(&mut self, link: u32, waiting: u32) {
        match self.place(link) {
            Site::Host => {}
            Site::Edge => self.edge.note(waiting),
            Site::Inside => self.inside.note(waiting),
        }
    }

    /// The links that belong to switches.
    pub(super) fn of_switches(&self) -> &[Link] {
        &self.all[self.hosts() as usize..]
    }

    /// What all links have done, packets counted at each.
    pub(super) fn counts(&self) -> LinkCounts {
        self.all.iter().fold(LinkCounts::default(), |sum, link| sum.plus(link.counts()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Links {
        Links::new(&LeafSpine { leaves: 2, spines: 3, hosts_per_leaf: 4, ..LeafSpine::default() })
    }

    #[test]
    fn a_path_goes_up_and_down_and_shares_no_link_with_the_way_back() {
        let (links, mut random) = (links(), Random::new(1));
        assert_eq!(links.all.len(), 2 * 8 + 2 * 2 * 3);
        let near = links.path(0, 3, &mut random);
        assert_eq!((near.link(0), near.link(1), near.link(2)), (Some(0), Some(8 + 3), None));
        for _ in 0..20 {
            let there = links.path(1, 6, &mut random);
            let back = links.path(6, 1, &mut random);
            let all =
                |path: Path| (0..4).map(|hop| path.link(hop).expect("four")).collect::<Vec<_>>();
            let (there, back) = (all(there), all(back));
            assert_eq!((there[0], there[3]), (1, 8 + 6));
            assert!((16..19).contains(&there[1]), "up from the first leaf: {there:?}");
            assert!((25..28).contains(&there[2]), "down to the second: {there:?}");
            assert_eq!(there[1] - 16, there[2] - 25, "by the same spine");
            assert!(there.iter().all(|link| !back.contains(link)), "{there:?} {back:?}");
        }
    }

    #[test]
    fn what_is_found_at_a_host_is_no_queue_of_the_fabric() {
        let mut links = links();
        for (link, waiting) in [(0, 9000), (8, 3000), (16, 5000)] {
            links.note(link, waiting);
        }
        assert_eq!((links.edge.deepest(), links.inside.deepest()), (3000, 5000));
    }
}
