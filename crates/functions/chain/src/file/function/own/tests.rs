//! Kinds that tests register, and what their functions are given.

use std::any::Any;

use base::Nanos;
use calisto_nf::{Function, Verdicts};
use shm::Batch;

use super::*;
use crate::file::{ChainFile, FunctionPart};

/// Does nothing.
struct Idle;

impl Function for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn process(&mut self, _batch: &mut Batch, _verdicts: &mut Verdicts, _now: Nanos) {}

    fn counters(&self, _each: &mut dyn FnMut(&'static str, &'static str, u64)) {}
}

impl Own for Idle {
    fn take_over(&mut self, _before: &mut dyn Any) {}
}

fn kinds() -> Kinds {
    Kinds::default().with("idle", |given| {
        let every = given.number("every", 1..=9)?.unwrap_or(1);
        let names = given.texts("names")?;
        let port = given.port("outside")?;
        let path = given.path("table")?;
        let says = format!("is {every} {names:?} {:?} {path:?}", port.map(|port| port.0));
        match given.flag("tells")? {
            Some(true) => Err(given.refuse("tells", says).into()),
            Some(false) => Err("it does not want to".into()),
            None => Ok(Box::new(Idle)),
        }
    })
}

fn made(settings: &str) -> String {
    let text = format!(
        "name = \"c\"\n[[slice]]\nports = [\"xdp:eth1\"]\n[[function]]\nkind = \"acl\"\ndefault = \"deny\"\n\
         [[function]]\nkind = \"idle\"\n{settings}"
    );
    let file = ChainFile::parse_with(&text, "c.toml", &kinds()).expect(settings);
    let [_, FunctionPart::Own(part)] = &file.functions[..] else { panic!("{file:?}") };
    assert_eq!(file.functions[1].kind(), "idle");
    let made = part.make(Path::new("/etc"), &|name| (name == "eth1").then_some(PortId(3)));
    made.map_or_else(|why| why.to_string(), |_| String::new())
}

#[test]
fn a_function_of_somebody_elses_kind_is_made_of_its_settings_and_may_refuse_them() {
    assert_eq!(made(""), "");
    let all = "every = 3\nnames = [\"a\", \"b\"]\noutside = \"eth1\"\ntable = \"t\"\ntells = true";
    let said = made(all);
    let told = "`function.tells` is 3 [\"a\", \"b\"] Some(3) Some(\"/etc/t\")";
    assert_eq!(said, format!("c.toml, line 13: {told}"));
    assert_eq!(made("tells = false"), "it does not want to");
}

#[test]
fn wrong_settings_of_a_function_of_somebody_elses_are_said_with_their_line() {
    for (settings, said) in [
        (
            "every = 10",
            "c.toml, line 9: `function.every` is 10; allowed is a whole number from 1 to 9",
        ),
        ("outside = \"eth2\"", "c.toml, line 9: `function.outside` is eth2, no port of the chain"),
        (
            "every = 2\nevry = 1",
            "c.toml, line 10: `function.evry` is no key: did you mean `every`?",
        ),
    ] {
        assert_eq!(made(settings), said);
    }
}

#[test]
fn a_kind_that_nobody_has_registered_is_refused() {
    let text = "name = \"c\"\n[[slice]]\nports = [\"xdp:eth1\"]\n[[function]]\nkind = \"idle\"\n";
    let said = ChainFile::parse(text, "c.toml").expect_err("nobody has it").to_string();
    assert!(said.contains("`function.kind` is \"idle\"; allowed is \"router\" or"), "{said}");
}

#[test]
#[should_panic(expected = "there is a kind \"acl\" already")]
fn nobody_takes_the_name_of_one_of_ours() {
    let _ = Kinds::default().with("acl", |_| Ok(Box::new(Idle)));
}
