//! Functions in a chain that are not ours, which a program has registered.

use std::any::Any;

use chain::own::{Batch, Function, Kinds, Nanos, Own, Verdict, Verdicts};
use whole::{Line, NfRun, Transfer, four};

/// Drops one TCP packet of so many.
struct Lossy {
    every: u64,
    seen: u64,
    dropped: u64,
}

impl Function for Lossy {
    fn name(&self) -> &'static str {
        "lossy"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, _now: Nanos) {
        for (_, frame, verdict) in verdicts.undecided(batch) {
            self.seen += u64::from(frame.bytes().get(23) == Some(&6));
            if self.seen >= self.every {
                (self.seen, self.dropped) = (0, self.dropped + 1);
                *verdict = Verdict::Drop;
            }
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        each("dropped", "Packets that had bad luck.", self.dropped);
    }
}

impl Own for Lossy {
    fn take_over(&mut self, before: &mut dyn Any) {
        let before = before.downcast_ref::<Self>().expect("it is of the same kind");
        (self.seen, self.dropped) = (before.seen, before.dropped);
    }
}

#[test]
fn a_function_that_a_program_has_registered_runs_beside_ours_and_goes_on_after_a_reload() {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let kinds = Kinds::default().with("lossy", |given| {
        let every = given.number("every", 2..=u64::MAX)?;
        let every = every.ok_or_else(|| given.refuse("every", "is missing"))?;
        Ok(Box::new(Lossy { every, seen: 0, dropped: 0 }))
    });
    let text = |every: &str| {
        format!(
            "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"lossy\"\n\
             {every}\n[[function]]\nkind = \"router\"\n"
        )
    };
    let chain = NfRun::start_with(middle, &text("every = 100"), &[], kinds);
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    let dropped = chain.count("lossy", "dropped");
    assert!(dropped >= 7, "{:?}", chain.figures());
    let why = chain.reload(&text("every = 1"), &[]).expect_err("one is too few");
    assert!(why.contains("line 6: `function.every` is 1"), "{why}");
    chain.reload(&text("every = 1000000"), &[]).expect("it is right");
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    assert_eq!(chain.count("lossy", "dropped"), dropped, "{:?}", chain.figures());
}
