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
    for (place, stage) in stages.iter_mut().enumerate().skip(from) {
        stage.process(batch, verdicts, now);
        watch(Half::Forth, place, stage, batch, verdicts);
    }
    for (place, stage) in stages.iter_mut().enumerate().rev() {
        stage.leave(batch, verdicts, now);
        watch(Half::Back, place, stage, batch, verdicts);
    }
}
