//! Tests of what a reload keeps.

use base::Nanos;
use calisto_nf::{Verdict, Verdicts, esp};
use shm::{Batch, FramePool, PoolConfig};

use super::*;
use crate::file::Kinds;
use crate::ports::{PortInterface, Ports};

fn parts(functions: &str) -> ChainFile {
    let text = format!("name = \"c\"\n[[slice]]\nports = [\"xdp:a@0\", \"xdp:b@0\"]\n{functions}");
    let kinds = Kinds::default().with("own", |_| Err("nobody makes it here".into()));
    ChainFile::parse_with(&text, "c.toml", &kinds).expect("a chain")
}

const L2: &str = "[[function]]\nkind = \"l2\"\nlinks = [[\"a\", \"b\"]]\n";
const LIMIT: &str =
    "[[function]]\nkind = \"policer\"\n[[function.classes]]\nrate_mbit = 8\nburst_kib = 2\n";

fn acl(rules: &str) -> String {
    format!("[[function]]\nkind = \"acl\"\ndefault = \"permit\"\n{rules}")
}

const DENY: &str = "[[function.rules]]\naction = \"deny\"\nprotocol = \"udp\"\n";
const PERMIT: &str = "[[function.rules]]\naction = \"permit\"\nprotocol = \"tcp\"\n";

#[test]
fn a_function_is_the_one_it_was_where_it_says_the_same_and_else_the_next_of_its_kind() {
    let old = parts(&format!("{}{LIMIT}{L2}", acl(DENY)));
    let new = parts(&format!("{LIMIT}{}{}{L2}", acl(PERMIT), acl("")));
    let found = origins(&old.functions, &new.functions, true);
    assert_eq!(found, [Origin::Same(1), Origin::After(0), Origin::New, Origin::Same(2)]);
}

#[test]
fn of_functions_of_one_kind_each_goes_on_where_it_was_when_one_goes_comes_or_changes_places() {
    let own = |says: &str| format!("[[function]]\nkind = \"own\"\n{says}\n");
    let [first, second] =
        ["list = [\"1\", 0x10]\ntext = \"a\"", "list = [\"2\", 16]\ntext = \"a\""];
    let object = |file: &str, says: &str| {
        let kind = "[[function]]\nkind = \"shared-object\"\n";
        format!("{kind}file = \"{file}.so\"\narguments = [\"{says}\"]\n")
    };
    for ([one, other], changed) in [
        ([own(first), own(second)], own("list = []")),
        ([object("a", "1"), object("a", "2")], object("a", "3")),
        ([object("a", "1"), object("b", "1")], object("b", "3")),
    ] {
        let found = |old: [&str; 2], new: [&str; 2]| {
            let [old, new] = [old, new].map(|all| parts(&format!("{}{L2}", all.concat())));
            let mut found = origins(&old.functions, &new.functions, true);
            assert!(matches!(found.pop(), Some(Origin::Same(_))), "the last one is as it was");
            found
        };
        let after = Origin::After;
        assert_eq!(found([&one, &other], ["", &other]), [after(1)], "{one}");
        assert_eq!(found(["", &other], [&one, &other])[1], after(0), "{one}");
        assert_eq!(found([&one, &other], [&other, &one]), [after(1), after(0)], "{one}");
        assert_eq!(found([&one, &other], [&changed, &one]), [after(1), after(0)], "{one}");
    }
    // The same settings in another order, another way of writing and another line.
    let again = own("# Of before.\ntext = 'a'\nlist = [\n  \"1\", 16,\n]");
    let old = parts(&format!("{}{}{L2}", own(second), own(first)));
    let new = parts(&format!("{again}{L2}"));
    assert_eq!(origins(&old.functions, &new.functions, true), [Origin::After(1), Origin::Same(2)]);
}

#[test]
fn a_tunnel_refuses_the_address_of_an_esp_end_that_came_with_the_keys_of_a_reload() {
    let end = |local: &str| {
        let text = esp::keys::EXAMPLE.replace("192.0.2.1", local);
        let text = text.replacen(&"0".repeat(40), "9f3c517e1bad4c6a80e1f27304c5b697a2d95e1f", 1);
        let text = text.replacen(&"0".repeat(40), "8f1e62d03c4b9a5967e8b1c70d2fa35e4419c6d0", 1);
        let tunnels = esp::keys::parse(&text).expect("its keys are drawn");
        Gateway::new(tunnels, Nanos::ZERO).expect("one tunnel")
    };
    // The same file, whose keys have changed.
    let file = parts(
        "[[function]]\nkind = \"esp\"\nkeys = \"keys\"\n[[function]]\nkind = \"tunnel\"\n\
         [[function.tunnels]]\nkind = \"gre\"\nlocal = \"198.51.100.1\"\n\
         remote = \"198.51.100.2\"\nnetworks = [\"10.9.0.0/16\"]\n\
         [[function]]\nkind = \"router\"\n",
    );
    let from = |old: &Gateway, new: &Gateway| {
        let [old, new] = [old, new].map(|gateway| senders(&file, Some(gateway)));
        origins(&file.functions, &file.functions, old == new)[1]
    };
    let (before, after) = (end("192.0.2.1"), end("192.0.2.7"));
    assert_eq!(from(&before, &after), Origin::After(1), "it is made anew, and refuses the new one");
    assert_eq!(from(&before, &before), Origin::Same(1));
}

#[test]
fn what_a_running_chain_cannot_change_is_refused() {
    let old = parts(L2);
    for (functions, says) in [
        ("[[function]]\nkind = \"router\"\n".to_owned(), "\"router\""),
        (
            L2.replace(
                "[[function]]",
                "[[slice]]\nports = [\"xdp:a@1\", \"xdp:b@1\"]\n[[function]]",
            ),
            "[[slice]]",
        ),
    ] {
        let refused = refuse_what_stays(&old, &parts(&functions)).expect_err("it cannot be");
        assert!(refused.to_string().contains(says), "{refused}");
    }
}

#[test]
fn counters_hits_and_levels_outlive_a_change_of_the_rules_around_them() {
    let interface = |name: &str, index| {
        let name = name.to_owned();
        PortInterface { name, index, mac: [2, 0, 0, 0, 0, 1], mtu: 1500 }
    };
    let ports = Ports::new(vec![interface("a", 1), interface("b", 2)]);
    let made = Parts {
        folder: std::path::Path::new(""),
        ports: &ports,
        rib: None,
        gateway: None,
        health: &Health::default(),
        follows: None,
    };
    let old = parts(&format!("{}{LIMIT}{L2}", acl(DENY)));
    let mut running = all_stages(&made, &old, &|_| false).expect("functions").remove(0);
    let pool = FramePool::new(PoolConfig { frames: 16, chunk_bytes: 2048, numa_node: None });
    let mut pool = pool.expect("a small pool");
    // An IPv4 packet of 1000 bytes, UDP or TCP.
    let mut verdict = |running: &mut Vec<Stage>, protocol: u8| {
        let mut packet = vec![0; 1000];
        packet[12..24].copy_from_slice(&[8, 0, 0x45, 0, 3, 0xda, 0, 0, 0, 0, 64, protocol]);
        packet[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[46] = 0x50;
        let mut frame = pool.take().expect("a frame");
        assert!(frame.fill(&packet));
        let (mut batch, mut verdicts) = (Batch::from_iter([frame]), Verdicts::new());
        for stage in running.iter_mut() {
            stage.process(&mut batch, &mut verdicts, Nanos::ZERO);
        }
        batch.drain(..).for_each(|frame| pool.give(frame));
        verdicts[0] != Verdict::Drop
    };
    assert_eq!([verdict(&mut running, 17), verdict(&mut running, 6)], [false, true]);
    let new = parts(&format!("{}{LIMIT}{L2}", acl(&format!("{PERMIT}{DENY}"))));
    let from = origins(&old.functions, &new.functions, true);
    let is_same = |place: usize| matches!(from[place], Origin::Same(_));
    let stages = all_stages(&made, &new, &is_same).expect("functions").remove(0);
    let mut swap = Swap { stages, from: from.clone() };
    swap.exchange(&mut running);
    let mut counted = Vec::new();
    running[0].counters(&mut |name, _, value| counted.push((name.as_ref().to_owned(), value)));
    let value = |name: &str| counted.iter().find(|(of, _)| of == name).map(|(_, value)| *value);
    assert_eq!(["permitted", "denied", "rule_1", "rule_2"].map(value), [1, 1, 0, 1].map(Some));
    // 2 KiB were in the bucket, and a packet has gone already.
    assert_eq!([verdict(&mut running, 6), verdict(&mut running, 6)], [true, false]);
    assert!(matches!(swap.stages[0], Stage::Acl(_)), "what was comes back");
}
