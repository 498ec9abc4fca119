//! The way of a batch through the functions of a chain: forth, each in turn, and back.

use base::Nanos;
use calisto_nf::Verdicts;
use shm::Batch;

use crate::stage::Stage;

/// Which half of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    /// Functions decide.
    Forth,
    /// Functions see what is to leave.
    Back,
}

/// Before which stage a router at the end looks at packets that have just come: the first that
/// makes packets of its own.
#[inline]
fn gate(stages: &[Stage]) -> Option<usize> {
    stages.iter().position(Stage::makes_packets)
}

/// Takes the batch through the stages from this one on, and back through all. Whoever watches is
/// shown what each has made of it, by the stage's place.
#[inline]
pub(crate) fn walk(
    stages: &mut [Stage],
    from: usize,
    batch: &mut Batch,
    verdicts: &mut Verdicts,
    now: Nanos,
    mut watch: impl FnMut(Half, usize, &Stage, &Batch, &Verdicts),
) {
    verdicts.reset();
    let gate = gate(stages).unwrap_or(usize::MAX);
    for place in from..stages.len() {
        let [.., last] = stages else { break };
        if place == gate && last.admit(batch, verdicts, now) {
            watch(Half::Forth, stages.len() - 1, &stages[stages.len() - 1], batch, verdicts);
        }
        let stage = &mut stages[place];
        stage.process(batch, verdicts, now);
        watch(Half::Forth, place, stage, batch, verdicts);
    }
    for (place, stage) in stages.iter_mut().enumerate().rev() {
        stage.leave(batch, verdicts, now);
        watch(Half::Back, place, stage, batch, verdicts);
    }
}
