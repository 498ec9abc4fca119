//! What an outside controller may ask for, and what happens when it does not come back.

use super::*;
use crate::Refused;

fn owner(shell: &Shell, group: u32) -> Option<WorkerId> {
    shell.live.entry(FlowGroup(group)).owner()
}

/// A move of the group from its owner to the next of four workers.
fn away(shell: &Shell, group: u32) -> Move {
    let from = owner(shell, group).expect("every group was touched");
    Move { group: FlowGroup(group), from, to: WorkerId((from.0 + 1) % 4) }
}

#[test]
fn proposed_moves_come_in_plans_a_few_at_a_time_and_all_of_them() {
    let mut shell = Shell::named("sticky", 4);
    let moves: Vec<Move> = (0..100).map(|group| away(&shell, group)).collect();
    shell.control.propose(&moves, &[], &shell.live).expect("all of them are true");
    assert!(!shell.control.is_settled());
    let mut ticks = 0;
    while shell.control.lease_state().queued > 0 || !shell.moves.is_empty() {
        shell.handle(Event::Tick);
        assert!(shell.moves.len() <= 16, "{} at once", shell.moves.len());
        while !shell.moves.is_empty() {
            shell.handle(Event::EndMove { abort: false });
        }
        ticks += 1;
        assert!(ticks < 100, "they never end");
    }
    for asked in moves {
        assert_eq!(owner(&shell, asked.group.0), Some(asked.to));
    }
    assert_eq!(shell.control.lease_state().stale, 0);
}

#[test]
fn a_proposal_counts_whole_or_not_at_all_and_the_first_wrong_one_is_named() {
    let mut shell = Shell::named("sticky", 4);
    let good = away(&shell, 1);
    let pinned = away(&shell, 2);
    shell.control.pin(pinned.group, pinned.from, &shell.live).expect("it is there");
    let base = away(&shell, 3);
    let (group, from) = (base.group, base.from);
    for (wrong, refused) in [
        (Move { group: FlowGroup(GROUPS), ..base }, Refused::NoGroup(FlowGroup(GROUPS))),
        (Move { to: WorkerId(9), ..base }, Refused::Worker(WorkerId(9))),
        (Move { from: base.to, to: from, ..base }, Refused::NotOwner(group, base.to)),
        (Move { to: from, ..base }, Refused::Stays(group, from)),
        (pinned, Refused::Pinned(pinned.group, pinned.from)),
    ] {
        let later = Move { group: FlowGroup(u32::MAX), ..base };
        let answer = shell.control.propose(&[good, wrong, later], &[], &shell.live);
        assert_eq!(answer, Err(refused));
    }
    let place = Place { group, worker: WorkerId(0) };
    let answer = shell.control.propose(&[good], &[place], &shell.live);
    assert_eq!(answer, Err(Refused::Owned(group, from)));
    let many = vec![good; GROUPS_PER_STEP + 1];
    let answer = shell.control.propose(&many, &[], &shell.live);
    let (given, room) = (GROUPS_PER_STEP + 1, GROUPS_PER_STEP);
    assert_eq!(answer, Err(Refused::Proposals { given, room }));
    assert_eq!(shell.control.lease_state().queued, 0);
    shell.handle(Event::Tick);
    assert!(shell.moves.is_empty());
}

#[test]
fn what_is_no_longer_true_when_its_turn_comes_is_dropped_and_counted() {
    let mut shell = Shell::named("sticky", 4);
    let asked = away(&shell, 5);
    let twice = Move { to: WorkerId((asked.to.0 + 1) % 4), ..asked };
    shell.control.propose(&[asked, twice], &[], &shell.live).expect("each is true now");
    shell.handle(Event::Tick);
    assert_eq!(shell.moves, [asked]);
    assert_eq!(shell.control.lease_state().stale, 1);
    shell.handle(Event::EndMove { abort: false });
    let of_leaving = (0..GROUPS).find(|&group| owner(&shell, group) == Some(WorkerId(0)));
    let to_leaving = Move {
        group: FlowGroup(of_leaving.expect("a quarter of them")),
        from: WorkerId(0),
        to: WorkerId(3),
    };
    shell.control.propose(&[to_leaving], &[], &shell.live).expect("it is true now");
    shell.control.set_workers(&[WorkerId(0), WorkerId(1), WorkerId(2)]);
    shell.settle();
    assert_eq!(shell.control.lease_state().stale, 2);
    assert_eq!(owner(&shell, to_leaving.group.0), Some(WorkerId(0)));
}

#[test]
fn a_group_that_is_on_its_way_already_is_not_asked_for_again() {
    let mut shell = Shell::named("sticky", 4);
    let asked = away(&shell, 5);
    shell.control.propose(&[asked], &[], &shell.live).expect("it is true");
    shell.handle(Event::Tick);
    shell.control.propose(&[asked], &[], &shell.live).expect("it is true until it has arrived");
    shell.handle(Event::Tick);
    assert_eq!(shell.plan.moves, []);
    assert_eq!(shell.control.lease_state().stale, 1);
}

#[test]
fn a_group_that_nobody_owns_begins_where_the_controller_says() {
    let mut shell = Shell::new(4);
    let places: Vec<Place> =
        (0..GROUPS).map(|group| Place { group: FlowGroup(group), worker: WorkerId(1) }).collect();
    shell.control.propose(&[], &places, &shell.live).expect("nobody owns anything");
    shell.handle(Event::Packet(9));
    let first = owner(&shell, 9);
    shell.handle(Event::Tick);
    assert_eq!(owner(&shell, 9), first, "its first packet came before");
    assert!((0..GROUPS).all(|group| group == 9 || owner(&shell, group) == Some(WorkerId(1))));
    assert!(shell.moves.is_empty(), "there is nothing to hand over");
    shell.check();
}

#[test]
fn groups_of_pinned_flows_are_not_the_controllers() {
    let mut shell = Shell::new(4);
    let place = Place { group: FlowGroup(GROUPS), worker: WorkerId(1) };
    let answer = shell.control.propose(&[], &[place], &shell.live);
    assert_eq!(answer, Err(Refused::NoGroup(FlowGroup(GROUPS))));
}

impl Shell {
    /// Load samples that `balanced` cannot mistake for chance; returns the moves that it asks for.
    pub(super) fn lopsided(&mut self, samples: usize) -> usize {
        let mut asked = 0;
        for _ in 0..samples {
            let load = |group| {
                let heavy = owner(self, group) == Some(WorkerId(0));
                GroupLoad { packets: if heavy { 4000 } else { 400 }, idle: Nanos::ZERO }
            };
            let mut groups: Vec<GroupLoad> = (0..GROUPS).map(load).collect();
            groups.resize((GROUPS + VIRTUAL) as usize, GroupLoad::default());
            self.tick(Some(LoadSample { now: self.now, first: FlowGroup(0), groups }));
            asked += self.moves.len();
            while !self.moves.is_empty() {
                self.handle(Event::EndMove { abort: false });
            }
        }
        asked
    }
}

#[test]
fn during_a_lease_the_policy_moves_nothing_and_after_it_goes_on() {
    let mut shell = Shell::named("balanced", 4);
    shell.control.lease(shell.now + Nanos::from_secs(10));
    assert_eq!(shell.lopsided(20), 0);
    shell.now += Nanos::from_secs(9);
    shell.control.lease(shell.now + Nanos::from_secs(10));
    shell.now += Nanos::from_secs(9);
    assert_eq!(shell.lopsided(20), 0, "it was renewed");
    shell.now += Nanos::from_secs(2);
    assert!(shell.lopsided(20) > 0, "it has run out");
    let LeaseState { until, ran_out, .. } = shell.control.lease_state();
    assert_eq!((until, ran_out), (None, 1));
}

#[test]
fn a_lease_that_is_given_back_ends_at_once_and_its_proposals_with_it() {
    let mut shell = Shell::named("balanced", 4);
    shell.control.lease(Nanos::FAR_FUTURE);
    let asked = away(&shell, 5);
    shell.control.propose(&[asked], &[], &shell.live).expect("it is true");
    shell.control.lease_ended();
    assert_eq!(shell.control.lease_state().queued, 0);
    shell.handle(Event::Tick);
    assert!(shell.moves.is_empty());
    assert!(shell.lopsided(20) > 0);
    assert_eq!(shell.control.lease_state().ran_out, 0);
}

#[test]
fn when_a_lease_ends_the_policy_measures_anew_before_it_moves() {
    let mut shell = Shell::named("balanced", 4);
    // One measurement, whose pass of moves the lease cuts off before it begins.
    assert_eq!(shell.lopsided(1), 0);
    shell.control.lease(Nanos::FAR_FUTURE);
    shell.control.lease_ended();
    assert_eq!(shell.lopsided(1), 0, "these figures are about another table");
}

#[test]
fn first_packets_and_leaving_workers_do_not_wait_for_a_controller() {
    for policy in ["sticky", "calisto", "hybrid", "balanced", "modulo", "least_loaded"] {
        let mut shell = Shell::named(policy, 4);
        shell.control.lease(Nanos::FAR_FUTURE);
        shell.control.set_workers(&[WorkerId(0), WorkerId(1), WorkerId(2)]);
        for _ in 0..8 {
            shell.handle(Event::Tick);
            shell.handle(Event::EndEpoch { keeps: 7 });
        }
        assert_eq!(shell.control.owned(WorkerId(3)), 0, "{policy}");
        assert!(shell.control.is_drained(WorkerId(3)), "{policy}");
        let mut fresh =
            Shell::new(steer::NAMES.iter().position(|(n, _)| *n == policy).expect("it"));
        fresh.control.lease(Nanos::FAR_FUTURE);
        fresh.handle(Event::Packet(3));
        assert!(owner(&fresh, 3).is_some(), "{policy}");
    }
}

#[test]
fn without_any_worker_proposals_do_not_wait_for_ever() {
    let mut shell = Shell::named("sticky", 4);
    shell.control.propose(&[away(&shell, 5)], &[], &shell.live).expect("it is true");
    shell.control.set_workers(&[]);
    shell.handle(Event::Tick);
    assert_eq!(shell.control.lease_state().queued, 0);
}
