//! Chains as perf(1) prints them.

use super::*;

const TEXT: &str = "\
epoll_echo  812/812  [001] \n\
\tffffffff8101 rep_movs_alternative ([kernel.kallsyms])\n\
\tffffffff8102 tcp_sendmsg_locked ([kernel.kallsyms])\n\
\tffffffff8103 inet_sendmsg ([kernel.kallsyms])\n\
\tffffffff8104 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])\n\
\t    7f04 __write (/usr/lib/libc.so.6)\n\
\n\
epoll_echo  812/812  [001] \n\
\tffffffff8105 tcp_v4_rcv ([kernel.kallsyms])\n\
\tffffffff8106 net_rx_action ([kernel.kallsyms])\n\
\tffffffff8102 tcp_sendmsg_locked ([kernel.kallsyms])\n\
\n\
stream worker 0  700/703  [001] \n\
\t    55d0 <tcp::engine::Engine as core::fmt::Debug>::fmt (/opt/bin/calistod)\n\
\n\
swapper  0/0  [000] \n\
\tffffffff8107 pv_native_safe_halt ([kernel.kallsyms])\n";

#[test]
fn heads_and_chains_are_read_whatever_words_are_in_names() {
    let samples = samples_in(TEXT);
    let heads: Vec<(&str, u32, usize, usize)> = samples
        .iter()
        .map(|sample| (sample.thread.as_str(), sample.pid, sample.cpu, sample.frames.len()))
        .collect();
    assert_eq!(
        heads,
        [
            ("epoll_echo", 812, 1, 5),
            ("epoll_echo", 812, 1, 3),
            ("stream worker 0", 700, 1, 1),
            ("swapper", 0, 0, 1)
        ]
    );
    assert_eq!(samples[0].frames[4].object, "/usr/lib/libc.so.6");
    assert!(samples[2].frames[0].symbol.starts_with("<tcp::engine::Engine as"));
}

#[test]
fn what_is_nobodys_is_its_callers_and_the_other_sides_half_is_told_apart() {
    let samples = samples_in(TEXT);
    let layers: Vec<Layer> =
        samples.iter().map(|sample| sample.layer("epoll_echo", &["libc.so"])).collect();
    assert_eq!(layers, [Layer::Protocol, Layer::Protocol, Layer::Protocol, Layer::Idle]);
    let others: Vec<bool> = samples.iter().map(Sample::is_other_side).collect();
    assert_eq!(others, [false, true, false, false]);
}

#[test]
fn files_tell_program_and_library_and_ourselves_apart() {
    let layer = |symbol: &str, object: &str| {
        let frame = Frame { symbol: symbol.to_owned(), object: object.to_owned() };
        frame.layer("epoll_echo", &["libc.so", "libcalisto_preload"])
    };
    assert_eq!(layer("main", "/tmp/epoll_echo"), Some(Layer::Application));
    assert_eq!(layer("epoll_wait", "/usr/lib/libc.so.6"), Some(Layer::Sockets));
    assert_eq!(layer("read", "/opt/lib/libcalisto_preload.so"), Some(Layer::Sockets));
    assert_eq!(layer("port::xdp::rx", "/opt/bin/calistod"), Some(Layer::Driver));
    assert_eq!(layer("main", "/opt/bin/other"), None);
    assert_eq!(layer("memcpy_orig", "[kernel.kallsyms]"), None);
    assert_eq!(layer("tcp_poll", "[kernel.kallsyms]"), Some(Layer::Sockets));
    assert_eq!(layer("bpf_prog_12ab", "bpf_prog_12ab"), Some(Layer::Driver));
}

#[test]
fn nonsense_is_no_sample() {
    assert_eq!(samples_in("no head\n\t1 symbol (file)\n\n\tfoo\n"), []);
}
