//! Texts that are ports, and texts that are not.

use super::*;

fn parse(text: &str) -> PortSpec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn what_is_printed_is_read_back_and_short_forms_stay_short() {
    for text in [
        "xdp:veth0",
        "xdp:veth0@0",
        "xdp:veth0@1",
        "xdp:veth0@3,mode=generic,take=all,copy,busy_poll,trust_link,ring=512,fill=64",
        "xdp:eth1,mode=native,zerocopy,busy_poll=100",
        "af_packet:eth1",
        "af_packet:eth1,fanout=7,fanout_mode=queue,qdisc,trust_link",
        "tap:tap0",
        "tap:tap0,address=10.0.0.1/24,up,mtu=1400,multi_queue",
        "tap:tap0,address=2001:db8::1/64",
        "pcap:in.pcap",
        "pcap:in.pcap,out.pcap,pace=recorded",
        "pcap:-,out.pcap",
    ] {
        let spec = parse(text);
        assert_eq!(spec.to_string(), text);
        assert_eq!(parse(&spec.to_string()), spec);
    }
}

#[test]
fn defaults_may_be_said_too() {
    assert_eq!(parse("xdp:a,take=ours,ring=2048,busy_poll=20"), parse("xdp:a,busy_poll"));
    assert_ne!(parse("xdp:a@0"), parse("xdp:a"), "one queue, or all");
    assert_eq!(parse("xdp:a,queue=0").to_string(), "xdp:a@0");
    assert_eq!(parse("xdp:a,queue=3").to_string(), "xdp:a@3");
    assert_eq!(parse("pcap:in,pace=fast"), parse("pcap:in"));
    assert_eq!(parse("af_packet:a,fanout=1,fanout_mode=hash"), parse("af_packet:a,fanout=1"));
    assert_eq!(
        parse("af_packet:a,fanout_mode=cpu,fanout=1").to_string(),
        "af_packet:a,fanout=1,fanout_mode=cpu"
    );
}

#[test]
fn an_interface_is_told() {
    assert_eq!(parse("xdp:veth0@1").interface(), Some("veth0"));
    assert_eq!(parse("pcap:x").interface(), None);
}

#[test]
fn texts_that_are_no_port_get_a_sentence_that_helps() {
    for (text, sentence) in [
        ("veth0", "write KIND:NAME"),
        ("", "write KIND:NAME"),
        ("xpd:veth0", "did you mean xdp?"),
        ("afpacket:veth0", "did you mean af_packet?"),
        ("dpdk:0", "known are xdp, af_packet, tap, pcap"),
        ("xdp:", "1 to 15"),
        ("xdp:a-name-that-is-too-long", "1 to 15"),
        ("xdp:a/b", "1 to 15"),
        ("xdp:a@x", "queue takes a number"),
        ("xdp:a@70000", "queue takes a number"),
        ("xdp:a@-1", "queue takes a number"),
        ("xdp:a,mod=generic", "did you mean mode?"),
        ("xdp:a,mode=fast", "mode=fast is none of native, generic"),
        ("xdp:a,mode", "mode= is none of"),
        ("xdp:a,copy=yes", "copy takes no value"),
        ("xdp:a,ring=many", "ring takes a number"),
        ("xdp:a,", "unknown option of xdp"),
        ("xdp:a,promisc", "known are"),
        ("af_packet:a,fanout_mode=cpu", "add fanout=NUMBER"),
        ("af_packet:a,fanout", "fanout takes a number"),
        ("tap:t,address=10.0.0.1", "write address=10.0.0.1/24"),
        ("tap:t,address=10.0.0.1/33", "write address="),
        ("pcap:", "needs a file"),
        ("pcap:-,-", "needs a file"),
        ("pcap:a,b,c", "unknown option of pcap"),
        ("pcap:a,pace=slow", "none of fast, recorded"),
    ] {
        let error = text.parse::<PortSpec>().expect_err(text).to_string();
        assert!(error.contains(sentence), "{text}: {error:?} instead of {sentence:?}");
    }
}

#[test]
fn distances_are_counted_in_letters() {
    assert_eq!(distance("", "abc"), 3);
    assert_eq!(distance("abc", "abc"), 0);
    assert_eq!(distance("xpd", "xdp"), 2);
    assert_eq!(distance("mod", "mode"), 1);
}
