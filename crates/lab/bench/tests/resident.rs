//! The largest data path fits in 64 MiB. A program of its own, so that nothing else is resident.

use bench::print_resident;

#[test]
fn a_million_groups_and_4096_touched_frames_are_resident_in_less_than_64_mib() {
    let mut out = Vec::new();
    print_resident(&mut out).expect("everything can be made");
    let text = String::from_utf8(out).expect("text");
    let numbers = text.trim().strip_prefix("resident_bytes ").expect("two numbers follow");
    let (empty, full) = numbers.split_once(' ').expect("two numbers");
    let parse = |number: &str| number.parse::<u64>().expect("a number");
    let (empty, full) = (parse(empty), parse(full));
    // 16 MiB of frames and 2 MiB a table: less would mean that not everything was touched.
    assert!(full > empty + (20 << 20), "{text}");
    assert!(full < 64 << 20, "{text}");
}
