//! `calisto pcap`: packets that the kernel never sees, in a file that others read.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use admin::{Command as Ask, ReplyBody};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use testbed::Testbed;
use whole::{Accelerated, Daemon, Program, Talks, bed, binary, project, run, wait_for};

const CONFIG: &str = "ports = [\"xdp:veth0,mode=native\"]\n\
    listen = [\"tcp:10.77.0.2:7\", \"tcp:10.77.0.2:8\"]\n[workers]\ncount = 2\njob = \"tcp-echo\"\n";

/// A packet of a capture: nanoseconds, whether it was received, bytes that it had, bytes that are
/// there.
type Packet = (u128, bool, u32, Vec<u8>);

fn read(file: &Path) -> Vec<Packet> {
    let file = File::open(file).expect("it was written");
    let mut reader = PcapNgReader::new(file).expect("a section");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.expect("it is whole").0 else { continue };
        let [EnhancedPacketOption::Flags(flags)] = packet.options[..] else {
            panic!("{:?}", packet.options)
        };
        let time = packet.timestamp.as_nanos();
        packets.push((time, flags == 1, packet.original_len, packet.data.to_vec()));
    }
    packets
}

fn talk(bed: &Testbed, port: u16, bytes: u64) {
    let server: SocketAddr = (bed.server().ipv4(), port).into();
    let mut talks = Talks::connect(bed.client(), 1, server);
    talks.echo(bytes);
    assert_eq!(talks.end(), bytes);
}

/// Talks to ports 7 and 8 while `calisto pcap` runs with these words; what it has said at its end.
fn captured(bed: &Testbed, daemon: &Daemon, words: &str) -> String {
    let mut command = Command::new(binary("calisto"));
    command.arg("pcap").args(words.split_whitespace()).env("CALISTO_ADMIN", daemon.socket());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("calisto is there");
    wait_for("the end of the capture", || {
        talk(bed, 8, 3000);
        talk(bed, 7, 3000);
        match child.try_wait().expect("it is our child") {
            Some(_) => Ok(()),
            None => Err("it goes on".to_owned()),
        }
    });
    let output = child.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn port_of(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

#[test]
fn a_capture_has_both_directions_of_what_was_asked_for_in_order_and_ends_at_its_count() {
    let bed = bed();
    let daemon = Daemon::start(bed.server(), CONFIG);
    let file = daemon.folder().join("seven.pcapng");
    let said = captured(&bed, &daemon, &format!("-c 40 --port 7 -w {}", file.display()));
    assert!(said.starts_with("40 packets in ") && !said.contains("missing"), "{said}");
    let packets = read(&file);
    assert_eq!(packets.len(), 40);
    assert!(packets.is_sorted_by_key(|(time, ..)| *time));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is later").as_nanos();
    let minutes = 600 * 1_000_000_000;
    assert!(packets.iter().all(|(time, ..)| *time < now && now - *time < minutes));
    for (_, is_in, len, bytes) in &packets {
        assert_eq!(bytes.len(), *len as usize, "nothing is cut");
        let (source, destination) = (port_of(bytes, 34), port_of(bytes, 36));
        assert_eq!(if *is_in { destination } else { source }, 7);
    }
    let flags = |packet: &Packet| (packet.1, packet.3[47] & 0x3f);
    // It may have begun in the middle of a connection, but has several.
    let syn = packets.iter().position(|packet| flags(packet) == (true, 0x02));
    let answer = packets.get(syn.expect("a connection begins") + 1);
    assert_eq!(answer.map(flags), Some((false, 0x12)), "a SYN is answered at once");
    let payload = |is_in: bool| packets.iter().any(|packet| packet.1 == is_in && packet.2 > 1000);
    assert!(payload(true) && payload(false));

    captured(&bed, &daemon, &format!("--bytes 2000 --snaplen 54 -w {}", file.display()));
    let length = std::fs::metadata(&file).expect("it was written").len();
    assert!((1800..=2000).contains(&length), "{length}");
    let packets = read(&file);
    assert!(packets.iter().all(|(.., bytes)| bytes.len() <= 54));
    assert!(packets.iter().any(|(.., len, _)| *len > 1000));
}

#[test]
fn tshark_reads_what_an_accelerated_program_has_heard_and_said() {
    let accelerated = Accelerated::start();
    let script = |name: &str| project().join("tests/programs").join(name).display().to_string();
    let python = "/usr/bin/python3";
    let mut server = accelerated.run(&[python, &script("asyncio_server.py"), "0.0.0.0", "8000"]);
    server.wait_until_it_says("listening");
    let file = accelerated.daemon().folder().join("port.pcapng");
    let mut command = Command::new(binary("calisto"));
    command.args(["pcap", "-c", "30", "--port", "8000", "-w"]).arg(&file);
    let capture = Program::spawn(command.env("CALISTO_ADMIN", accelerated.daemon().socket()));
    let host = accelerated.here().ipv4().to_string();
    wait_for("the end of the capture", || {
        let client = [python, &script("asyncio_client.py"), &host, "8000", "1", "20000"];
        accelerated.run_there(&client).succeed();
        let said = capture.so_far();
        if said.contains("30 packets in ") { Ok(()) } else { Err(said) }
    });
    assert!(capture.end().status.success());
    accelerated.all_was_accelerated();
    let fields = ["-T", "fields", "-e", "tcp.srcport", "-e", "tcp.dstport", "-e", "_ws.malformed"];
    let (status, out, said) =
        run(Command::new("tshark").args(["-n", "-r"]).arg(&file).args(fields));
    assert!(status.success(), "{said}");
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 30, "{out}");
    assert!(rows.iter().all(|row| row[2].is_empty()), "{out}");
    // From the program, and to it.
    for at in [0, 1] {
        assert!(rows.iter().any(|row| row[at] == "8000" && row[1 - at] != "8000"), "{out}");
    }
}

#[test]
fn a_capture_that_cannot_be_is_refused_and_one_that_nobody_reads_any_more_ends() {
    let bed = bed();
    let daemon = Daemon::start(bed.server(), CONFIG);
    let (status, _, said) = daemon.try_calisto("pcap --app nobody -w /dev/null");
    assert!(!status.success() && said.contains("\"nobody\""), "{said}");
    let (status, _, said) = daemon.try_calisto("pcap --bytes 10 -w /dev/null");
    assert!(!status.success() && said.contains("ask for more than 10"), "{said}");
    let request = Ask::Capture(admin::CaptureRequest::default());
    let begin = || {
        let mut operator = daemon.connect();
        let answer = operator.ask(&admin::Request::new(request.clone()));
        (operator, answer)
    };
    let four: Vec<_> = (0..4).map(|_| begin()).collect();
    for (_, answer) in &four {
        assert!(matches!(answer, ReplyBody::Capturing { .. }), "{answer:?}");
    }
    let (_, fifth) = begin();
    let ReplyBody::Error { message } = &fifth else { panic!("{fifth:?}") };
    assert!(message.contains("4 captures"), "{message}");
    drop(four);
    wait_for("room for another", || {
        // That nobody reads shows when something is written.
        talk(&bed, 7, 100);
        match begin().1 {
            ReplyBody::Capturing { .. } => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}
