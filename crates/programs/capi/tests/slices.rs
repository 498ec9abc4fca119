//! A slice in C: the example bridge between two kernels, and misuse. Needs root.

use std::ffi::{CStr, CString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr;

use crate::middle::Middle;
use calisto::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Where cargo has put the libraries that were built for this test.
fn libraries() -> PathBuf {
    let binary = std::env::current_exe().expect("proc is mounted");
    binary.parent().expect("it lies in a folder").to_owned()
}

/// The example, compiled beside the library.
fn bridge() -> PathBuf {
    let program = std::env::temp_dir().join(format!("calisto-bridge-{}", std::process::id()));
    let compiler = Command::new("cc")
        .args(["-std=gnu99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"])
        .arg("-I")
        .arg(root().join("crates/programs/capi/include"))
        .arg(root().join("examples/bridge.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(libraries())
        .arg("-l:libcalisto.so")
        .output()
        .expect("a C compiler is installed as `cc`");
    let said = String::from_utf8_lossy(&compiler.stderr);
    assert!(compiler.status.success(), "{said}");
    program
}

fn start(middle: &Middle, program: &Path, arguments: &[&str]) -> Child {
    middle
        .middle()
        .command(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run")
}

#[test]
fn the_c_bridge_carries_what_two_kernels_say_and_says_so_when_it_is_interrupted() {
    let middle = Middle::new();
    let program = bridge();
    let mut child = start(&middle, &program, &["xdp:veth0 xdp:veth1", "0", "ip or arp"]);
    let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it prints text");
    assert_eq!(line, "ready\n");
    let (left, right) = (middle.socket_left(7001), middle.socket_right(7002));
    let mut packet = [0; 2048];
    for len in [0, 1, 64, 500, 1472] {
        let request = vec![7; len];
        left.send_to(&request, Middle::right_address(7002)).expect("the link is up");
        let (got, from) = right.recv_from(&mut packet).expect("it comes through");
        right.send_to(&packet[..got], from).expect("the link is up");
        assert_eq!(left.recv(&mut packet).expect("an answer comes through"), len);
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is ours");
    line.clear();
    said.read_line(&mut line).expect("it prints text");
    let status = child.wait().expect("it is ours");
    let _ = std::fs::remove_file(&program);
    assert!(status.success(), "{status}");
    let count: u32 = line.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(count >= 10 && line.ends_with(" packets read\n"), "{line}");
}

/// The last failure's sentence.
fn error() -> String {
    // SAFETY: null is allowed, and the text is good until the next call.
    unsafe { CStr::from_ptr(calisto_error(ptr::null())) }.to_str().expect("text").to_owned()
}

fn options(ports: &CStr) -> CalistoSliceOptions {
    CalistoSliceOptions {
        ports: ports.as_ptr(),
        cpus: ptr::null(),
        filter: ptr::null(),
        name: ptr::null(),
        frames: 64,
        frame_bytes: 2048,
        reserved: [0; 4],
    }
}

fn open(options: &CalistoSliceOptions) -> Result<*mut CalistoSlice, String> {
    let mut slice = ptr::null_mut();
    // SAFETY: the options and what they point to live, and the pointer can be written.
    let result = unsafe { calisto_slice_open(options, &mut slice) };
    if result == 0 {
        return Ok(slice);
    }
    assert!(result < 0 && slice.is_null());
    Err(error())
}

#[test]
fn options_that_make_no_sense_are_answered_with_a_sentence() {
    for (ports, words) in
        [(c"", "has no ports"), (c"eth0", "names no port"), (c"xdp:none-such0", "none-such0")]
    {
        let error = open(&options(ports)).expect_err("it makes no sense");
        assert!(error.contains(words), "{error}");
    }
    let nonsense = c"nonsense";
    let error = open(&CalistoSliceOptions { cpus: nonsense.as_ptr(), ..options(c"xdp:lo") });
    assert!(error.expect_err("no CPUs").contains("no CPU"));
    let error = open(&CalistoSliceOptions { filter: nonsense.as_ptr(), ..options(c"xdp:lo") });
    assert!(error.expect_err("no filter").contains("\"nonsense\" is no filter"));
    let error = open(&CalistoSliceOptions { reserved: [1, 0, 0, 0], ..options(c"xdp:lo") });
    assert!(error.expect_err("not zero").contains("reserved"));
    // SAFETY: null is allowed everywhere.
    unsafe {
        assert_eq!(calisto_slice_open(ptr::null(), ptr::null_mut()), CALISTO_INVALID);
        assert_eq!(calisto_slice_write_multi(ptr::null_mut(), ptr::null_mut(), 0), CALISTO_INVALID);
        calisto_slice_close(ptr::null_mut());
    }
}

#[test]
fn a_packet_can_be_written_once_and_what_has_no_room_moves_to_the_front() {
    let middle = Middle::new();
    let slice = middle.middle().enter(|| {
        // A number crosses threads, a pointer does not.
        open(&options(c"af_packet:veth0 xdp:veth1")).unwrap_or_else(|error| panic!("{error}"))
            as usize
    });
    let slice = slice.expect("the namespace is there") as *mut CalistoSlice;
    let left = middle.socket_left(7001);
    for number in 0..3 {
        left.send_to(&[number; 20], (middle.middle().ipv4(), 7002)).expect("the link is up");
    }
    let mut packets = vec![
        CalistoSlicePacket {
            data: ptr::null_mut(),
            len: 0,
            room: 0,
            port: 0,
            flags: 0,
            checksum_start: 0,
            checksum_offset: 0,
            handle: 0,
        };
        8
    ];
    let (mut count, mut rounds) = (0, 0);
    while count < 3 && rounds < 100 {
        let free = packets.len() - count;
        // SAFETY: that many places are behind the pointer, and the slice is open.
        let read = unsafe {
            calisto_slice_read_multi(
                slice,
                packets.as_mut_ptr().add(count),
                free as u32,
                100_000_000,
            )
        };
        count += usize::try_from(read).unwrap_or_else(|_| panic!("{}", error()));
        rounds += 1;
    }
    assert_eq!(count, 3);
    assert!(packets[..3].iter().all(|packet| packet.port == 0 && packet.len == 62));
    let good = packets[0];
    let write = |packets: &mut [CalistoSlicePacket]| {
        // SAFETY: that many packets are behind the pointer, and the slice is open.
        unsafe { calisto_slice_write_multi(slice, packets.as_mut_ptr(), packets.len() as u32) }
    };
    for wrong in [
        CalistoSlicePacket { handle: good.handle + 1000, ..good },
        CalistoSlicePacket { len: good.room + 1, ..good },
        CalistoSlicePacket { flags: 4, ..good },
    ] {
        assert_eq!(write(&mut [wrong]), CALISTO_INVALID, "{}", error());
    }
    packets[0].flags = CALISTO_SLICE_SKIP;
    packets[1].port = 1;
    packets[2].port = 9;
    assert_eq!(write(&mut packets[..3]), 3);
    assert!(packets[..3].iter().all(|packet| packet.data.is_null() && packet.handle == 0));
    assert_eq!(write(&mut [good]), CALISTO_INVALID, "it was taken");
    let value = |name: &str| {
        let mut counter = CalistoSliceCounter { name: [0; 32], help: [0; 128], value: 0 };
        for n in 0.. {
            // SAFETY: the slice is open and the counter can be written.
            if unsafe { calisto_slice_counter(slice, -1, n, &mut counter) } != 1 {
                break;
            }
            // SAFETY: the library ends it with a zero.
            let found = unsafe { CStr::from_ptr(counter.name.as_ptr()) };
            if found.to_str() == Ok(name) {
                return counter.value;
            }
        }
        panic!("there is no counter {name}")
    };
    assert_eq!(["read", "skipped", "no_port"].map(value), [3, 1, 1]);
    let mut cpus = [0; 64];
    let text = CString::new("0").expect("no zeros");
    // SAFETY: the slice is open, the texts end with zeros, the place is as long as said.
    unsafe {
        assert_eq!(calisto_slice_set_cpus(slice, text.as_ptr(), ptr::null()), 0, "{}", error());
        let got = calisto_slice_get_cpus(slice, 0, cpus.as_mut_ptr(), ptr::null_mut(), 64);
        assert_eq!((got, CStr::from_ptr(cpus.as_ptr())), (0, c"0"));
        assert!(calisto_slice_poll_fd(slice) >= 0);
        assert_eq!(calisto_slice_attach_filter(slice, c"tcp".as_ptr()), 0, "{}", error());
        assert_eq!(calisto_slice_attach_filter(slice, c"tcpp".as_ptr()), CALISTO_INVALID);
        assert_eq!(calisto_slice_attach_filter(slice, ptr::null()), 0, "{}", error());
        calisto_slice_close(slice);
    }
}
