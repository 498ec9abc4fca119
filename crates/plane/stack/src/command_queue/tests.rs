//! What workers say to the slow side.

use super::*;

#[test]
fn all_that_a_worker_has_said_is_heard_after_its_end() {
    let front = CommandQueue::new(|| (), || ());
    let freed = |slot| SocketEvent::Freed { app: 5, slot, generation: 1 };
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
