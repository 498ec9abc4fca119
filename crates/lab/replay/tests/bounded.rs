//! Memory: bounded whatever the file holds, and none per packet once the flows are known.

mod common;

use std::fs::File;
use std::io::{self, Read, Write};

use common::*;
use replay::{Args, Options, Report, play, run};
use sys::counting_alloc::{CountingAllocator, allocations_in};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// A capture made while it is read: a number of packets, of a number of flows in turn.
struct Flood {
    packets: u32,
    flows: u32,
    next: u32,
    /// What is being read: the header, or a record with a packet of 64 bytes.
    piece: Vec<u8>,
    at: usize,
}

impl Flood {
    fn new(packets: u32, flows: u32) -> Self {
        Self { packets, flows, next: 0, piece: plain(&[]), at: 0 }
    }

    /// Source address and port are numbered; nobody looks at the checksums.
    fn packet(&mut self) {
        let flow = self.next % self.flows;
        if self.next == 0 {
            let whole = plain(&spaced([udp("10.0.0.1:1024", "10.0.0.2:7", &[0; 22])], 0));
            self.piece = whole[24..].to_vec();
        }
        let [a, b, c, d] = flow.to_be_bytes();
        let packet = &mut self.piece[16..];
        packet[28..30].copy_from_slice(&[a, b]);
        packet[34..36].copy_from_slice(&[c, d]);
        let nanos = self.next % 1_000_000_000;
        self.piece[4..8].copy_from_slice(&nanos.to_le_bytes());
        self.next += 1;
        self.at = 0;
    }
}

impl Read for Flood {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            if self.next == self.packets {
                return Ok(0);
            }
            self.packet();
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn flood(packets: u32, flows: u32, options: &Options) -> Report {
    let flood = Flood::new(packets, flows);
    play(flood, None, options, |_| true).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn packets_of_known_flows_allocate_nothing() {
    let options = Options::default();
    let allocations = |packets| {
        allocations_in(|| {
            let report = flood(packets, 500, &options);
            assert_eq!((report.played.packets, report.flows.tracked), (packets.into(), 500));
        })
    };
    let few = allocations(5_000);
    assert_eq!(allocations(200_000), few);
}

#[test]
fn flows_beyond_the_limit_are_counted_and_cost_no_memory() {
    let options = Options { flows_max: 1000, ..Options::default() };
    let report = flood(400_000, 200_000, &options);
    assert_eq!((report.flows.tracked, report.flows.untracked_packets), (1000, 398_000));
    assert!(report.table().contains("398000 packets of further flows are not tracked"));
    adds_up(&report);
    let more = Options { flows_max: 150_000, ..options };
    assert_eq!(flood(400_000, 200_000, &more).flows.untracked_packets, 100_000);
    let peak = memory_peak_bytes();
    assert!(peak < 300 << 20, "{peak} bytes, the tests beside this one included");
}

#[test]
fn a_gigabyte_of_zeros_is_many_records_without_a_byte() {
    let path = std::env::temp_dir().join(format!("calisto-zeros-{}.pcap", std::process::id()));
    let make = |header: &[u8]| {
        let mut file = File::create(&path)?;
        file.write_all(header)?;
        // A hole: it takes no room on the disk.
        file.set_len(1 << 30)
    };
    make(&plain(&[])).expect("the directory for temporary files can be written");
    let report = run(&Args::new(&path), true);
    make(&[]).expect("it could be written before");
    let refused = run(&Args::new(&path), true);
    std::fs::remove_file(&path).expect("it was written above");
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.records.empty, ((1 << 30) - 24) / 16);
    assert_eq!(report.played.packets, 0);
    assert!(report.faults.damage.is_some(), "half a header is left");
    let refused = refused.expect_err("no magic number").to_string();
    assert!(refused.contains("not a capture file"), "{refused}");
    let peak = memory_peak_bytes();
    assert!(peak < 300 << 20, "{peak} bytes, the tests beside this one included");
}

/// The most memory that this process ever had.
fn memory_peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes.and_then(|number| number.parse::<u64>().ok()).expect("proc(5) says so") << 10
}
