//! What is joined says what its segments said, and what does not follow is not joined.

use base::{NO_FRAGMENT, TxChecksum};
use shm::{FramePool, PoolConfig, ring};
use wire::{FlowKey, Protocol, checksum};

use super::*;
use datapath::message::FromWorker;

const MSS: usize = 1000;
const L4: usize = 34;

fn segment(number: u32, payload: &[u8]) -> Segment<'_> {
    let [from, to] = ["10.0.0.2:7", "10.0.0.1:5000"].map(|at| at.parse().expect("an address"));
    Segment {
        key: FlowKey::new(Protocol::Tcp, from, to).expect("one version"),
        sequence: Seq(number),
        acknowledgement: Seq(9),
        flags: header::ACK,
        window: 500,
        urgent: 0,
        options: OptionBytes::NONE,
        payload: [payload.into(), tcp::ReadPiece::EMPTY],
        ecn: 0,
        ip: tcp::IpFields::default(),
        route: 0,
    }
}

/// Headers and segment as the press writes them.
fn press(segment: &Segment<'_>, mut frame: Frame) -> Frame {
    assert!(frame.set_len(L4 + segment.len()));
    let bytes = frame.bytes_mut();
    bytes[..L4].fill(0);
    (bytes[12], bytes[14]) = (8, 0x45);
    bytes[16..18].copy_from_slice(&((20 + segment.len()) as u16).to_be_bytes());
    let sum = checksum::of(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    assert!(segment.write_partial(&mut bytes[L4..]).is_some());
    let meta = frame.meta_mut();
    meta.tx_checksum = TxChecksum::Partial;
    (meta.l3_offset, meta.tx_segment_bytes, meta.next_fragment) = (14, 0, NO_FRAGMENT);
    frame
}

/// Joins what can be joined of `segments`; the frames that left, and how many segments they are of.
fn join(pool: &mut FramePool, segments: &[Segment<'_>]) -> (Vec<Frame>, usize) {
    let mut spares: Vec<Frame> = (0..20).filter_map(|_| pool.take()).collect();
    let first = press(&segments[0], spares.pop().expect("there are twenty"));
    let (mut outbox, mut inbox) = ring::<FromWorker>(64);
    let mut joined = 1;
    match GsoBatch::begin(&segments[0], first, L4) {
        Err(frame) => Outlet::new(&mut outbox).send(frame),
        Ok(mut gso_batch) => {
            for segment in &segments[1..] {
                if gso_batch.has_ended()
                    || !gso_batch.takes(segment)
                    || !gso_batch.push(segment, &mut spares)
                {
                    break;
                }
                joined += 1;
            }
            gso_batch.leave(&mut Outlet::new(&mut outbox));
        }
    }
    outbox.publish();
    spares.into_iter().for_each(|frame| pool.give(frame));
    let mut frames = Vec::new();
    while let Some(FromWorker::Packet(frame)) = inbox.pop() {
        frames.push(frame);
    }
    (frames, joined)
}

fn pool() -> FramePool {
    let config = PoolConfig { frames: 32, chunk_bytes: 2048, ..PoolConfig::default() };
    FramePool::new(config).expect("a small pool")
}

#[test]
fn segments_that_follow_on_each_other_leave_as_one_with_every_byte_in_order() {
    let mut pool = pool();
    let bytes: Vec<u8> = (0..4500).map(|at| (at % 251) as u8).collect();
    let mut segments: Vec<_> =
        bytes.chunks(MSS).zip(0..).map(|(part, at)| segment(at * MSS as u32, part)).collect();
    // The third lies at the ring's end, in two pieces.
    let (one, other) = segments[2].payload[0].split_at(300);
    segments[2].payload = [one, other];
    segments[4].flags |= header::PSH;
    let (frames, joined) = join(&mut pool, &segments);
    assert_eq!(joined, 5);
    let head = frames.first().expect("something left");
    assert_eq!(usize::from(head.meta().tx_segment_bytes), MSS);
    for (frame, next) in frames.iter().zip(frames.iter().skip(1)) {
        assert_eq!(frame.meta().next_fragment, next.desc().offset);
    }
    assert_eq!(frames.last().map(|frame| frame.meta().next_fragment), Some(NO_FRAGMENT));
    assert!(frames.iter().all(|frame| frame.meta().transmit));
    // A piece that a port met alone would be refused.
    let asks = |frame: &Frame| (frame.meta().tx_segment_bytes, frame.meta().tx_checksum);
    assert!(frames[1..].iter().all(|piece| asks(piece) == (MSS as u16, TxChecksum::Complete)));
    let whole: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
    assert_eq!(&whole[L4 + 20..], bytes);
    assert_eq!(whole[16..18], (40 + 4500_u16).to_be_bytes(), "the IP header's length");
    assert_eq!(checksum::of(&whole[14..34]), 0, "and its sum");
    assert_eq!(whole[L4 + 13], header::ACK | header::PSH);
    // What the field holds is the sum of the pseudo header with the whole length.
    let long = segment(0, &bytes);
    let mut expected = vec![0; long.len()];
    assert!(long.write_partial(&mut expected).is_some());
    assert_eq!(whole[L4 + 16..L4 + 18], expected[16..18]);
    frames.into_iter().for_each(|frame| pool.give(frame));
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn whatever_does_not_follow_is_a_segment_of_its_own() {
    let mut pool = pool();
    let bytes = [5; MSS];
    let first = segment(0, &bytes);
    let next = segment(MSS as u32, &bytes);
    let mut cases = vec![("nothing else", next, 2)];
    cases.push(("a gap", segment(MSS as u32 + 1, &bytes), 1));
    cases.push(("what was sent before", segment(0, &bytes), 1));
    cases.push(("another window", Segment { window: 501, ..next }, 1));
    cases.push(("another acknowledgement", Segment { acknowledgement: Seq(10), ..next }, 1));
    cases.push(("a reset", Segment { flags: header::ACK | header::RST, ..next }, 1));
    cases.push(("urgent data", Segment { urgent: 3, ..next }, 1));
    cases.push(("another way", Segment { route: 1, ..next }, 1));
    cases.push(("an ECN bit", Segment { ecn: 2, ..next }, 1));
    let ip = tcp::IpFields { class: 0x10, ..next.ip };
    cases.push(("another class", Segment { ip, ..next }, 1));
    cases.push(("nothing in it", segment(MSS as u32, &[]), 1));
    let long = [5; MSS + 1];
    cases.push(("more than the first", segment(MSS as u32, &long), 1));
    for (what, second, expected) in cases {
        let (frames, joined) = join(&mut pool, &[first, second]);
        assert_eq!(joined, expected, "{what}");
        let is_long = frames[0].meta().tx_segment_bytes != 0;
        assert_eq!(is_long, expected > 1, "{what}");
        frames.into_iter().for_each(|frame| pool.give(frame));
    }
    for (what, last) in [
        ("a short one", segment(MSS as u32, &bytes[..600])),
        ("a FIN", Segment { flags: header::ACK | header::FIN, ..next }),
    ] {
        let after = segment(last.sequence.0 + last.payload_bytes() as u32, &bytes);
        let (frames, joined) = join(&mut pool, &[first, last, after]);
        assert_eq!(joined, 2, "nothing follows {what}");
        frames.into_iter().for_each(|frame| pool.give(frame));
    }
    for alone in [segment(0, &bytes[..100]), Segment { flags: header::SYN, ..first }] {
        let (frames, _) = join(&mut pool, &[alone, next]);
        assert_eq!((frames.len(), frames[0].meta().tx_segment_bytes), (1, 0));
        frames.into_iter().for_each(|frame| pool.give(frame));
    }
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_gso_batch_ends_where_ip_or_the_frames_do() {
    let config = PoolConfig { frames: 64, chunk_bytes: 4096, ..PoolConfig::default() };
    let mut pool = FramePool::new(config).expect("a small pool");
    let bytes = [5; MSS];
    let segments: Vec<_> = (0..80).map(|at| segment(at * MSS as u32, &bytes)).collect();
    let (frames, joined) = join(&mut pool, &segments);
    let length: usize = frames.iter().map(Frame::len).sum();
    assert!(length <= usize::from(u16::MAX) && joined > 60, "{joined} segments, {length} bytes");
    assert!(frames.len() <= PIECES_MAX);
    frames.into_iter().for_each(|frame| pool.give(frame));
}
