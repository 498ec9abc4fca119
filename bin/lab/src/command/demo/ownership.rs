//! What two pictures of the steering say: which flows moved, how evenly packets were spread.

use std::collections::BTreeMap;

use admin::WorkerStatus;
use cli::failure::Failure;
use policy::table_text;

/// Who owned each group at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ownership {
    owners: Vec<Option<u16>>,
}

impl Ownership {
    /// From the daemon's text.
    pub(super) fn read(table: &str) -> Result<Self, Failure> {
        let entries = table_text::import(table).map_err(|error| {
            Failure::new(format!("the daemon's owner table cannot be read: {error}"))
        })?;
        let owners = entries.iter().map(|entry| entry.owner().map(|worker| worker.0));
        Ok(Self { owners: owners.collect() })
    }

    /// Of the flows of these groups, the share whose worker is another one `later`.
    pub(super) fn moved(&self, later: &Self, groups: impl IntoIterator<Item = u32>) -> f64 {
        let owner = |of: &Self, group: u32| of.owners.get(group as usize).copied().flatten();
        let (mut owned, mut moved) = (0_u32, 0_u32);
        for group in groups {
            if let (Some(before), Some(after)) = (owner(self, group), owner(later, group)) {
                owned += 1;
                moved += u32::from(before != after);
            }
        }
        f64::from(moved) / f64::from(owned)
    }
}

/// Packets that each active worker has processed.
pub(super) type Processed = BTreeMap<u16, u64>;

/// Packets of the workers that are not on their way out.
pub(super) fn processed(workers: &[WorkerStatus]) -> Processed {
    let active = workers.iter().filter(|worker| worker.state == "active");
    active.map(|worker| (worker.id, worker.packets)).collect()
}

/// The busiest worker's packets between two times over the mean, among those active at both.
pub(super) fn max_to_mean(before: &Processed, after: &Processed) -> f64 {
    let spent: Vec<u64> = after
        .iter()
        .filter_map(|(id, &after)| Some(after.saturating_sub(*before.get(id)?)))
        .collect();
    let max = spent.iter().copied().max().unwrap_or(0) as f64;
    let mean = spent.iter().sum::<u64>() as f64 / spent.len() as f64;
    max / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(runs: &str) -> Ownership {
        Ownership::read(&format!("groups 128\n{runs}")).expect("it is a table")
    }

    #[test]
    fn only_groups_with_flows_that_were_owned_at_both_times_count() {
        let before = table("0-3 0\n4-7 1\n");
        let after = table("0-1 0\n2-7 1\n8-9 2\n");
        assert_eq!(before.moved(&after, [0, 1, 2, 3]), 0.5);
        assert_eq!(before.moved(&after, [4, 8, 9, 200_000]), 0.0);
        assert!(before.moved(&after, []).is_nan(), "nothing is known of no flows");
    }

    #[test]
    fn a_table_that_is_none_is_refused_with_the_reason() {
        let failure = Ownership::read("groups 5\n").expect_err("not a power of two");
        assert!(failure.to_string().contains("cannot be read"), "{failure}");
    }

    #[test]
    fn evenness_is_that_of_the_time_between() {
        let before = Processed::from([(0, 100), (1, 100), (2, 7)]);
        let after = Processed::from([(0, 200), (1, 400), (3, 9)]);
        assert_eq!(max_to_mean(&before, &after), 1.5);
        assert!(max_to_mean(&before, &Processed::new()).is_nan());
    }

    #[test]
    fn a_worker_on_its_way_out_is_not_counted() {
        let worker = |id, state: &str| WorkerStatus {
            id,
            state: state.to_owned(),
            cpu: None,
            numa_node: None,
            groups: 0,
            queued: 0,
            packets: 5,
        };
        let workers = [worker(0, "active"), worker(1, "leaving"), worker(2, "retiring")];
        assert_eq!(processed(&workers), Processed::from([(0, 5)]));
    }
}
