//! What workers say to the slow side.

use base::Generation;

use super::*;

#[test]
fn all_that_a_worker_has_said_is_heard_after_its_end() {
    let front = CommandQueue::new(|| (), || ());
    let freed =
        |slot| SocketEvent::Freed { app: AppId(5), slot: SlotId(slot), generation: Generation(1) };
    for _ in 0..3 {
        let mut post = front.post(WorkerId(1));
        (0..EVENTS as u32 + 1000).for_each(|slot| post.say(freed(slot)));
        post.flush();
        assert!(post.has_news(), "there is no room for all of it");
    }
    let mut slots = Vec::new();
    front.hear(|event| slots.push(event));
    let all: Vec<_> = (0..3).flat_map(|_| (0..EVENTS as u32 + 1000).map(freed)).collect();
    assert!(slots == all, "{} of {}", slots.len(), all.len());
    assert!(front.state().heard.is_empty(), "nothing is kept of a worker that has ended");
}

#[test]
fn there_is_no_room_for_questions_while_as_many_events_wait_as_the_ring_holds() {
    let front = CommandQueue::new(|| (), || ());
    let mut post = front.post(WorkerId(1));
    let remote = "10.0.0.1".parse().expect("an address");
    let ask = |post: &mut Post| {
        let (room, _) = post.room_for_questions();
        let question = SocketEvent::Unresolved { remote, user: 7, is_answer: true };
        (0..room).for_each(|_| post.say(question));
        post.flush();
        room
    };
    assert_eq!([ask(&mut post), ask(&mut post), ask(&mut post)], [EVENTS, EVENTS, 0]);
    let mut heard = 0;
    front.hear(|_| heard += 1);
    post.flush();
    assert_eq!((heard, post.room_for_questions()), (EVENTS, (EVENTS, EVENTS)));
}
