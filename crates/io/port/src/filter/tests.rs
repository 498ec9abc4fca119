//! What a filter takes, and which programs are none. Against the kernel:
//! `xdp/program/filter/tests.rs`.

use super::*;

fn instruction(code: u16, if_true: u8, if_false: u8, value: u32) -> Instruction {
    Instruction { code, if_true, if_false, value }
}

const TAKE_ALL: Instruction = Instruction { code: 0x06, if_true: 0, if_false: 0, value: 1 };

fn refused(program: &[Instruction]) -> String {
    Filter::from_program("hand-made", program).expect_err("it may not run").to_string()
}

#[test]
fn an_expression_takes_what_it_says() {
    let filter = Filter::compile("udp dst port 53").expect("libpcap is installed");
    let mut packet = [0; 60];
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14] = 0x46;
    packet[23] = 17;
    packet[40..42].copy_from_slice(&53u16.to_be_bytes());
    assert!(filter.matches(&packet), "behind an option");
    packet[14] = 0x45;
    assert!(!filter.matches(&packet));
    assert!(!filter.matches(&packet[..20]) && !filter.matches(&[]));
    assert_eq!(filter.expression(), "udp dst port 53");
    assert!(Filter::compile("").expect("it is everything").matches(&[]));
}

#[test]
fn nonsense_is_answered_with_a_sentence_that_quotes_it() {
    let error = Filter::compile("host from hell").expect_err("nonsense").to_string();
    assert!(error.contains("\"host from hell\"") && error.contains("pcap-filter(7)"), "{error}");
}

#[test]
fn a_program_that_could_do_harm_does_not_run() {
    assert!(refused(&[]).contains("no instructions"));
    assert!(refused(&[instruction(0x00, 0, 0, 1)]).contains("no return"));
    for (first, what) in [
        (instruction(0x15, 1, 0, 0), "leaves the program"),
        (instruction(0x15, 0, 255, 0), "leaves the program"),
        (instruction(0x05, 0, 0, 1), "leaves the program"),
        (instruction(0x05, 0, 0, u32::MAX - 1), "leaves the program"),
        (instruction(0x34, 0, 0, 0), "divides by zero"),
        (instruction(0x94, 0, 0, 0), "divides by zero"),
        (instruction(0x64, 0, 0, 32), "shifts by more"),
        (instruction(0x60, 0, 0, 16), "is none"),
        (instruction(0x02, 0, 0, 16), "is none"),
        (instruction(0x20, 0, 0, 0xffff_f000), "is none"),
        (instruction(0xffff, 0, 0, 0), "is none"),
    ] {
        let error = refused(&[first, TAKE_ALL]);
        assert!(error.contains(what), "{first:?}: {error}");
    }
    assert!(refused(&vec![TAKE_ALL; 4097]).contains("4096 is the limit"));
}

#[test]
fn a_loop_without_an_end_takes_nothing_and_ends() {
    let round = instruction(0x05, 0, 0, u32::MAX);
    let filter = Filter::from_program("round", &[round, TAKE_ALL]).expect("it stays inside");
    assert!(!filter.matches(&[0; 60]));
}

#[test]
fn a_chain_of_headers_is_followed_to_its_end() {
    let filter = Filter::compile("ip6 protochain 6").expect("libpcap is installed");
    let mut packet = vec![0; 14 + 40 + 16];
    packet[12..14].copy_from_slice(&[0x86, 0xdd]);
    packet[14] = 0x60;
    // Hop-by-hop options, then destination options, then TCP.
    packet[20] = 0;
    packet[54] = 60;
    packet[62] = 6;
    assert!(filter.matches(&packet));
    packet[62] = 17;
    assert!(!filter.matches(&packet));
}
