//! Next hops: what the kernel named, what frames say, and what is asked when.

use base::PortId;

use super::*;

#[test]
fn a_next_hop_that_nothing_came_by_for_long_is_used_and_asked_for_once() {
    let mut neighbours = Neighbours::default();
    let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
    let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
    let at = Nanos::from_secs;
    let ask = |neighbours: &mut Neighbours, now| {
        let is_found = neighbours.find(remote, local, 7, now).is_some();
        (is_found, neighbours.questions().count())
    };
    assert_eq!(ask(&mut neighbours, at(1)), (false, 1));
    assert_eq!(ask(&mut neighbours, at(2)), (false, 0), "it was asked already");
    neighbours.set(remote, None, at(3));
    assert_eq!(ask(&mut neighbours, at(3)), (false, 0), "it was told that there is none");
    assert_eq!(ask(&mut neighbours, at(7)), (false, 1), "perhaps there is by now");
    neighbours.set(remote, Some((&next_hop, local)), at(7));
    assert_eq!(ask(&mut neighbours, at(31)), (true, 0));
    assert_eq!(ask(&mut neighbours, at(38)), (true, 1), "it is thirty seconds old");
    assert_eq!(ask(&mut neighbours, at(39)), (true, 0));
    let route = Route::of_next_hop(&next_hop).expect("a short header");
    neighbours.set(remote, Some((&next_hop, local)), at(39));
    neighbours.learn(remote, local, route, 7, at(50));
    assert_eq!(ask(&mut neighbours, at(79)), (true, 0), "something came by it");
}

#[test]
fn a_forged_frame_redirects_nobody_and_only_has_the_kernel_asked() {
    let mut neighbours = Neighbours::default();
    let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
    let [honest, forged, another] = [1, 2, 3].map(|mac| NextHop {
        port: PortId(1),
        vlan_tci: 0,
        header: [&[mac; 12][..], &[8, 0]].concat(),
    });
    let route = |next_hop| Route::of_next_hop(next_hop).expect("a short header");
    let at = Nanos::from_secs;
    let found = |neighbours: &mut Neighbours, now| {
        neighbours.find(remote, local, 7, now).map(|(route, _)| route)
    };
    // Of what nobody knows, the first word is believed until the kernel has answered.
    neighbours.learn(remote, local, route(&forged), 7, at(1));
    assert_eq!(found(&mut neighbours, at(1)), Some(route(&forged)));
    let asked = Question { remote, user: 7, is_answer: true };
    assert_eq!(neighbours.questions().collect::<Vec<_>>(), [asked]);
    neighbours.set(remote, Some((&honest, local)), at(2));
    assert_eq!(found(&mut neighbours, at(2)), Some(route(&honest)));
    for (by, questions) in [(&forged, 0), (&another, 1)] {
        for second in 3..7 {
            neighbours.learn(remote, local, route(by), 7, at(second));
            assert_eq!(found(&mut neighbours, at(second)), Some(route(&honest)));
        }
        assert_eq!(neighbours.questions().count(), questions, "the first was asked about");
    }
    // What the kernel has no route to is not learned from frames either.
    neighbours.set(remote, None, at(7));
    neighbours.learn(remote, local, route(&forged), 7, at(7));
    assert_eq!(found(&mut neighbours, at(7)), None);
}

#[test]
fn sources_to_which_nobody_answers_have_nobody_asked_however_many_come() {
    let mut neighbours = Neighbours::default();
    let local: IpAddr = "10.0.0.2".parse().expect("an address");
    let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
    let route = Route::of_next_hop(&next_hop).expect("a short header");
    let address = |at: usize| IpAddr::from([10, 1, (at >> 8) as u8, at as u8]);
    let now = Nanos::from_secs(1);
    for at in 0..3 * NEIGHBOURS_MAX {
        neighbours.learn(address(at), local, route, 7, now);
    }
    assert_eq!((neighbours.questions().count(), neighbours.asked.len()), (0, 0));
    let last = address(3 * NEIGHBOURS_MAX - 1);
    let found = (0..2).map(|_| neighbours.find(last, local, 7, now)).collect::<Vec<_>>();
    assert_eq!(found, [Some((route, local)); 2], "an answer leaves at once");
    let asked = Question { remote: last, user: 7, is_answer: true };
    assert_eq!(neighbours.questions().collect::<Vec<_>>(), [asked]);
}

#[test]
fn a_question_for_which_there_is_no_room_is_asked_when_somebody_sends_again() {
    let mut neighbours = Neighbours::default();
    let local: IpAddr = "10.0.0.2".parse().expect("an address");
    let remotes = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
    let now = Nanos::from_secs(1);
    let mut find_all = |room| {
        for remote in remotes {
            assert!(neighbours.find(remote, local, 7, now).is_none());
        }
        let forgotten = neighbours.forget_questions_beyond(room, 4);
        (forgotten, neighbours.questions().map(|asked| asked.remote).collect::<Vec<_>>())
    };
    assert_eq!(find_all(1), (2, remotes[..1].to_vec()));
    assert_eq!(find_all(0), (2, vec![]));
    assert_eq!(find_all(9), (0, remotes[1..].to_vec()));
    assert_eq!(find_all(9), (0, vec![]), "all were asked");
}

#[test]
fn a_user_with_many_addresses_makes_no_address_of_another_be_forgotten() {
    let mut neighbours = Neighbours::default();
    let address = |of: u32, at: u32| IpAddr::from([of as u8, 0, (at >> 8) as u8, at as u8]);
    let local: IpAddr = "10.0.0.2".parse().expect("an address");
    let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
    let now = Nanos::from_secs(1);
    // The quiet user's addresses are first, last and in the middle of the order.
    let quiet: Vec<_> =
        [1, 10, 200].iter().flat_map(|of| (0..3).map(|at| address(*of, at))).collect();
    let mut find = |remote, user| neighbours.find(remote, local, user, now).is_some();
    let asked = |remote: IpAddr| Question { remote, user: 7, is_answer: false };
    quiet.iter().for_each(|remote| assert!(!find(*remote, 7)));
    assert_eq!(
        neighbours.questions().collect::<Vec<_>>(),
        quiet.iter().copied().map(asked).collect::<Vec<_>>()
    );
    for remote in &quiet {
        neighbours.set(*remote, Some((&next_hop, local)), now);
    }
    for at in 0..2 * NEIGHBOURS_MAX as u32 {
        for of in [0, 100, 250] {
            assert!(neighbours.find(address(of, at), local, 8, now).is_none());
            neighbours.set(address(of, at), Some((&next_hop, local)), now);
        }
    }
    assert_eq!(neighbours.known.len(), NEIGHBOURS_MAX);
    for remote in quiet {
        assert!(neighbours.find(remote, local, 7, now).is_some(), "{remote} is forgotten");
    }
    // The same holds of what was asked for, and of what nobody answered.
    for at in 0..2 * NEIGHBOURS_MAX as u32 {
        neighbours.set(address(100, at), None, now);
    }
    assert!(neighbours.asked.len() <= NEIGHBOURS_MAX);
    let kept = |of: &OfUsers| of.addresses.values().map(VecDeque::len).sum::<usize>();
    assert_eq!(kept(&neighbours.known_of), neighbours.known.len());
    assert_eq!(kept(&neighbours.asked_of), neighbours.asked.len());
}

#[test]
fn answers_to_peers_that_come_by_another_link_address_than_the_kernel_names_ask_once_and_not_for_each()
 {
    let mut neighbours = Neighbours::default();
    let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
    let [virtual_router, router, third] = [1, 2, 3].map(|mac| NextHop {
        port: PortId(1),
        vlan_tci: 0,
        header: [&[mac; 12][..], &[8, 0]].concat(),
    });
    let route = |next_hop: &NextHop| Route::of_next_hop(next_hop).expect("a short header");
    let ms = |ms| Nanos::from_secs(1) + Nanos::from_millis(ms);
    let mut questions = |by: &[&NextHop], from_ms: u64, to_ms: u64| -> usize {
        let mut questions = 0;
        for (at, by) in (from_ms..to_ms).zip(by.iter().cycle()) {
            neighbours.learn(remote, local, route(by), 7, ms(at));
            assert!(neighbours.find(remote, local, 7, ms(at)).is_some());
            if neighbours.questions().count() > 0 {
                questions += 1;
                neighbours.set(remote, Some((&virtual_router, local)), ms(at));
            }
        }
        questions
    };
    // Thousands of requests, and then only as many questions as of a peer that is silent.
    assert_eq!(questions(&[&router], 0, 30_000), 1);
    assert_eq!(questions(&[&router, &virtual_router], 30_000, 90_000), 0);
    // One that alternates is asked about now and then.
    let of_three = questions(&[&router, &third], 90_000, 110_000);
    assert!((1..=5).contains(&of_three), "{of_three}");
}

#[test]
fn strangers_whom_a_program_answers_make_nothing_be_forgotten_that_it_began_with() {
    let mut neighbours = Neighbours::default();
    let local: IpAddr = "10.0.0.2".parse().expect("an address");
    let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
    let route = Route::of_next_hop(&next_hop).expect("a short header");
    let address = |of: u8, at: usize| IpAddr::from([of, 0, (at >> 8) as u8, at as u8]);
    let now = Nanos::from_secs(1);
    let own: Vec<_> = (0..1000).map(|at| address(10, at)).collect();
    for remote in &own {
        assert!(neighbours.find(*remote, local, 7, now).is_none());
        neighbours.set(*remote, Some((&next_hop, local)), now);
    }
    let unanswered: Vec<_> = (0..1000).map(|at| address(11, at)).collect();
    for remote in &unanswered {
        neighbours.find(*remote, local, 7, now);
    }
    assert_eq!(neighbours.questions().count(), 2000);
    for at in 0..3 * NEIGHBOURS_MAX {
        neighbours.learn(address(12, at), local, route, 7, now);
        assert!(neighbours.find(address(12, at), local, 7, now).is_some());
    }
    assert!(own.iter().all(|remote| neighbours.find(*remote, local, 7, now).is_some()));
    for remote in &unanswered {
        neighbours.find(*remote, local, 7, now);
    }
    assert!(neighbours.questions().all(|question| question.is_answer), "it is asked again");
}

#[test]
fn what_a_program_begins_with_is_asked_before_answers_and_has_half_of_the_room_to_itself() {
    let local: IpAddr = "10.0.0.2".parse().expect("an address");
    let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
    let route = Route::of_next_hop(&next_hop).expect("a short header");
    let now = Nanos::from_secs(1);
    let asked = |strangers: u8, own: u8, room: usize| {
        let mut neighbours = Neighbours::default();
        for last in 0..strangers {
            let remote = IpAddr::from([10, 1, 0, last]);
            neighbours.learn(remote, local, route, 7, now);
            assert!(neighbours.find(remote, local, 7, now).is_some());
        }
        for last in 0..own {
            assert!(neighbours.find([10, 2, 0, last].into(), local, 7, now).is_none());
        }
        let forgotten = neighbours.forget_questions_beyond(room, 20);
        let kinds: Vec<_> = neighbours.questions().map(|asked| asked.is_answer).collect();
        assert!(kinds.is_sorted(), "{kinds:?}");
        let answers = kinds.iter().filter(|is_answer| **is_answer).count();
        assert_eq!(forgotten + kinds.len(), usize::from(strangers + own));
        (kinds.len() - answers, answers)
    };
    assert_eq!(asked(50, 3, 20), (3, 10));
    assert_eq!(asked(50, 15, 20), (15, 5));
    assert_eq!(asked(50, 15, 10), (10, 0));
    assert_eq!(asked(4, 0, 13), (0, 3));
    assert_eq!(asked(4, 2, 20), (2, 4));
}

#[test]
fn a_question_that_the_slow_side_had_no_room_for_is_asked_again_soon() {
    let mut neighbours = Neighbours::default();
    let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
    let mut asks = |ms: u64, is_refused: bool| {
        let now = Nanos::from_millis(ms);
        assert!(neighbours.find(remote, local, 7, now).is_none());
        let count = neighbours.questions().count();
        if is_refused {
            neighbours.ask_again(remote, now);
        }
        count
    };
    assert_eq!(asks(1000, true), 1);
    assert_eq!(asks(1099, true), 0, "in a tenth of a second, whoever says so again");
    assert_eq!(asks(1100, false), 1);
    assert_eq!(asks(5099, false), 0);
    assert_eq!(asks(5100, false), 1);
}

#[test]
fn after_a_change_of_routes_each_way_is_used_and_asked_for_once_and_given_up_if_there_is_none() {
    let mut neighbours = Neighbours::default();
    let [remote, local] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
    let next_hop = NextHop { port: PortId(1), vlan_tci: 0, header: vec![0; 14] };
    let route = Route::of_next_hop(&next_hop).expect("a short header");
    let now = Nanos::from_secs(1);
    let ask = |neighbours: &mut Neighbours| {
        let is_found = neighbours.find(remote, local, 7, now).is_some();
        (is_found, neighbours.questions().map(|asked| asked.is_answer).collect::<Vec<_>>())
    };
    assert_eq!(ask(&mut neighbours), (false, vec![false]));
    neighbours.set(remote, Some((&next_hop, local)), now);
    assert_eq!(ask(&mut neighbours), (true, vec![]));
    neighbours.outdate();
    // Nothing that comes says what the kernel's routes are.
    neighbours.learn(remote, local, route, 7, now);
    assert_eq!(ask(&mut neighbours), (true, vec![false]));
    assert_eq!(ask(&mut neighbours), (true, vec![]));
    neighbours.set(remote, Some((&next_hop, local)), now);
    assert_eq!(ask(&mut neighbours), (true, vec![]));
    neighbours.outdate();
    assert_eq!(ask(&mut neighbours), (true, vec![false]));
    neighbours.set(remote, None, now);
    assert_eq!(ask(&mut neighbours), (false, vec![]));
}
