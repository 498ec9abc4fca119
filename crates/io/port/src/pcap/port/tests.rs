//! Files through the port, in a directory of the test's own.

use shm::PoolConfig;

use super::*;

struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("calisto-pcap-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pool() -> FramePool {
    let config = PoolConfig { frames: 128, chunk_bytes: 2048, ..PoolConfig::default() };
    FramePool::new(config).expect("a small pool")
}

fn open(pool: &FramePool, options: &PcapOptions) -> PcapPort {
    PcapPort::open(PortId(3), pool, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Writes `count` packets, one each 100 ns, and gives the file's name.
fn written(directory: &Directory, pool: &mut FramePool, count: u8) -> String {
    let path = directory.file("written.pcap");
    let epoch = Nanos::from_secs(1_700_000_000);
    let options = PcapOptions { output: Some(path.clone()), epoch, ..PcapOptions::default() };
    let mut port = open(pool, &options);
    for index in 0..count {
        let mut frame = pool.take().expect("the pool is large enough");
        assert!(frame.fill(&[index; 60]));
        let mut batch = Batch::from_iter([frame]);
        assert_eq!(port.tx(pool, &mut batch, Nanos(u64::from(index) * 100)), 1);
    }
    assert_eq!(port.counters().tx_packets, u64::from(count));
    port.close(pool);
    path
}

fn receive(port: &mut PcapPort, pool: &mut FramePool, now: Nanos) -> Vec<u8> {
    let mut batch = Batch::new();
    port.rx(pool, &mut batch, now);
    batch
        .drain(..)
        .map(|frame| {
            assert_eq!((frame.meta().port, frame.meta().received_at), (PortId(3), now));
            let number = frame.bytes()[0];
            pool.give(frame);
            number
        })
        .collect()
}

#[test]
fn a_written_file_is_played_in_batches_to_its_end() {
    let (directory, mut pool) = (Directory::new("fast"), pool());
    let input = Some(written(&directory, &mut pool, 100));
    let mut port = open(&pool, &PcapOptions { input, ..PcapOptions::default() });
    assert_eq!(receive(&mut port, &mut pool, Nanos(5)), (0..64).collect::<Vec<_>>());
    assert_eq!(port.fault(), None);
    assert_eq!(receive(&mut port, &mut pool, Nanos(6)), (64..100).collect::<Vec<_>>());
    assert_eq!(port.fault(), Some(Fault::EndOfFile));
    assert_eq!(port.next_deadline(), Nanos::FAR_FUTURE);
    assert_eq!(port.counters().rx_packets, 100);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn the_recorded_pace_keeps_the_distances() {
    let (directory, mut pool) = (Directory::new("pace"), pool());
    let input = Some(written(&directory, &mut pool, 3));
    let options = PcapOptions { input, pace: Pace::Recorded, ..PcapOptions::default() };
    let mut port = open(&pool, &options);
    assert_eq!(receive(&mut port, &mut pool, Nanos(1_000)), [0]);
    assert_eq!(port.next_deadline(), Nanos(1_100));
    assert!(receive(&mut port, &mut pool, Nanos(1_099)).is_empty());
    assert_eq!(receive(&mut port, &mut pool, Nanos(1_250)), [1, 2]);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_damaged_file_is_played_up_to_the_damage() {
    let (directory, mut pool) = (Directory::new("damage"), pool());
    let path = written(&directory, &mut pool, 3);
    let bytes = std::fs::read(&path).expect("we wrote it");
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("we wrote it");
    let mut port = open(&pool, &PcapOptions { input: Some(path), ..PcapOptions::default() });
    assert_eq!(receive(&mut port, &mut pool, Nanos(5)), [0, 1]);
    assert_eq!(port.fault(), Some(Fault::DamagedFile));
    assert_eq!(port.counters().rx_invalid, 1);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn closing_gives_back_the_packet_that_waits() {
    let (directory, mut pool) = (Directory::new("close"), pool());
    let input = Some(written(&directory, &mut pool, 3));
    let options = PcapOptions { input, pace: Pace::Recorded, ..PcapOptions::default() };
    let mut port = open(&pool, &options);
    receive(&mut port, &mut pool, Nanos(1));
    assert_eq!(pool.outstanding(), 1);
    port.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (directory, mut pool) = (Directory::new("errors"), pool());
    let (text, missing) = (directory.file("text"), directory.file("missing"));
    std::fs::write(&text, "not packets").expect("the directory is ours");
    let error = |pool: &FramePool, options| {
        PcapPort::open(PortId(0), pool, &options).err().expect("it cannot be used").to_string()
    };
    let input = |path: &String| PcapOptions { input: Some(path.clone()), ..PcapOptions::default() };
    let sentence = error(&pool, input(&text));
    assert!(sentence.contains(&text) && sentence.contains("not a capture file"), "{sentence}");
    assert!(error(&pool, input(&missing)).contains("cannot open it"));
    let good = written(&directory, &mut pool, 1);
    let both = PcapOptions { output: Some(good.clone()), ..input(&good) };
    assert!(error(&pool, both).contains("played and written at once"));
    let output = Some(directory.file("no/such/directory"));
    let sentence = error(&pool, PcapOptions { output, ..PcapOptions::default() });
    assert!(sentence.contains("cannot write it"), "{sentence}");
}

#[test]
fn a_disk_that_is_full_is_a_fault_and_counted() {
    let mut pool = pool();
    let options = PcapOptions { output: Some("/dev/full".to_owned()), ..PcapOptions::default() };
    let mut port = open(&pool, &options);
    let mut frame = pool.take().expect("the pool is large enough");
    assert!(frame.fill(&[1; 60]));
    let mut batch = Batch::from_iter([frame]);
    port.tx(&mut pool, &mut batch, Nanos(1));
    port.flush(&mut pool, Nanos(1));
    assert_eq!(port.fault(), Some(Fault::CannotWrite));
    assert_eq!(pool.outstanding(), 0);
}
