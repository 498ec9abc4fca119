//! The other end of the tunnel is scapy, which shares no line of code with us and computes by
//! OpenSSL.

use std::io::Write;
use std::process::{Command, Stdio};

use calisto_nf::esp::Algorithm;

use crate::ends::{End, Plan, forwarded, ipv4, ipv6, key};

/// Debian's own, whose modules are Debian's packages.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = include_str!("scapy.py");

/// What scapy makes of IP packets that `sender` of the plan has sent or is to send.
fn scapy(
    plan: &Plan,
    what: &str,
    sender: usize,
    packets: &[Vec<u8>],
) -> Vec<Result<Vec<u8>, String>> {
    let [key, auth] = key(plan.algorithm, sender).map(|bytes| hexadecimal(&bytes));
    let mut python = Command::new(PYTHON);
    python.args(["-c", SCRIPT, what, plan.algorithm.name(), &key, &auth]);
    python.args([&(0x1001 + sender).to_string(), plan.ends[sender], plan.ends[1 - sender]]);
    python.args(plan.is_extended.then_some("extended"));
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = python.spawn().expect("apt-get install python3");
    let lines: String = packets.iter().map(|packet| hexadecimal(packet) + "\n").collect();
    let mut input = running.stdin.take().expect("it is piped");
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = running.wait_with_output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "apt-get install python3-scapy python3-cryptography: {said}");
    writing.join().expect("it only writes").expect("all is read");
    let text = String::from_utf8(output.stdout).expect("hexadecimal");
    text.lines().map(|line| bytes(line).ok_or_else(|| line.to_owned())).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// With the link's header that packets come with.
fn framed(packet: &[u8]) -> Vec<u8> {
    let model = if packet[0] >> 4 == 6 { ipv6(60) } else { ipv4(60) };
    [&model[..14], packet].concat()
}

fn plans() -> Vec<Plan> {
    let plan = |algorithm, is_extended| Plan { is_extended, ..Plan::new(algorithm) };
    let mut plans = Vec::new();
    for algorithm in Algorithm::ALL {
        plans.push(plan(algorithm, false));
        plans.push(plan(algorithm, false).over_ipv6());
    }
    // Of ESP with HMAC scapy signs no upper half: there long numbers are held to a known answer
    // alone.
    plans.push(plan(Algorithm::Gcm, true));
    plans
}

/// Packets of both versions and of every remainder of a block.
fn packets() -> Vec<Vec<u8>> {
    let lengths = (48..80).chain([576, 1280, 1386]);
    lengths.flat_map(|len| [ipv4(len), ipv6(len)]).collect()
}

/// A tunnel's worth of them.
fn sealed(near: &mut End, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    packets.iter().map(|packet| near.pass(packet).expect("it goes into the tunnel")).collect()
}

#[test]
fn scapy_opens_what_we_seal() {
    for plan in plans() {
        let packets = packets();
        let sealed = sealed(&mut plan.end(0), &packets);
        let outside: Vec<_> = sealed.iter().map(|frame| frame[14..].to_vec()).collect();
        let opened = scapy(&plan, "open", 0, &outside);
        assert_eq!(opened.len(), packets.len());
        for (opened, packet) in opened.into_iter().zip(packets) {
            let expected = forwarded(packet)[14..].to_vec();
            assert_eq!(opened, Ok(expected), "{}, {:?}", plan.algorithm, plan.ends);
        }
    }
}

#[test]
fn we_open_what_scapy_seals() {
    for plan in plans() {
        let packets = packets();
        let inside: Vec<_> = packets.iter().map(|frame| frame[14..].to_vec()).collect();
        let sealed = scapy(&plan, "seal", 0, &inside);
        assert_eq!(sealed.len(), packets.len());
        let mut far = plan.end(1);
        for (sealed, packet) in sealed.into_iter().zip(packets) {
            let frame = framed(&sealed.expect("scapy seals everything"));
            let opened = far.pass(&frame);
            let expected = forwarded(packet);
            // Who seals lowers the time to live if it forwards; scapy does not.
            let opened = opened.map(|opened| forwarded(opened)[14..].to_vec());
            assert_eq!(
                opened,
                Some(expected[14..].to_vec()),
                "{}, {:?}",
                plan.algorithm,
                far.counts()
            );
            far.drops(&frame, |counters| &mut counters.replayed);
        }
    }
}

#[test]
fn scapy_refuses_what_was_changed() {
    for algorithm in Algorithm::ALL {
        let plan = Plan::new(algorithm);
        let sealed = sealed(&mut plan.end(0), &packets()[..8]);
        let outside: Vec<_> = sealed
            .iter()
            .enumerate()
            .map(|(at, frame)| {
                let mut packet = frame[14..].to_vec();
                // Behind the outer header and the SPI.
                let place = 24 + at * 9;
                packet[place] ^= 1;
                packet
            })
            .collect();
        for opened in scapy(&plan, "open", 0, &outside) {
            assert!(opened.is_err(), "{algorithm}");
        }
    }
}
