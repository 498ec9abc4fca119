//! The header in C against the layout in Rust.

use std::mem::{offset_of, size_of};

use super::*;
use crate::foreign::tests::compile;

#[test]
fn the_header_says_what_this_crate_reads() {
    let places = [
        ("calisto_function_packet", "data", offset_of!(Packet, data)),
        ("calisto_function_packet", "len", offset_of!(Packet, len)),
        ("calisto_function_packet", "room", offset_of!(Packet, room)),
        ("calisto_function_packet", "received_ns", offset_of!(Packet, received_ns)),
        ("calisto_function_packet", "port", offset_of!(Packet, port)),
        ("calisto_function_packet", "out", offset_of!(Packet, out)),
        ("calisto_function_packet", "vlan", offset_of!(Packet, vlan)),
        ("calisto_function_packet", "verdict", offset_of!(Packet, verdict)),
        ("calisto_function_packet", "checksum", offset_of!(Packet, checksum)),
        ("calisto_function_counter", "name", offset_of!(Counter, name)),
        ("calisto_function_counter", "help", offset_of!(Counter, help)),
        ("calisto_function_host", "chain", offset_of!(Host, chain)),
        ("calisto_function_host", "port", offset_of!(Host, port)),
        ("calisto_function", "version", offset_of!(Table, version)),
        ("calisto_function", "counter_count", offset_of!(Table, counter_count)),
        ("calisto_function", "counters", offset_of!(Table, counters)),
        ("calisto_function", "make", offset_of!(Table, make)),
        ("calisto_function", "process", offset_of!(Table, process)),
        ("calisto_function", "leave", offset_of!(Table, leave)),
        ("calisto_function", "read", offset_of!(Table, read)),
        ("calisto_function", "take_over", offset_of!(Table, take_over)),
        ("calisto_function", "destroy", offset_of!(Table, destroy)),
    ];
    let sizes = [
        ("calisto_function_packet", size_of::<Packet>()),
        ("calisto_function_counter", size_of::<Counter>()),
        ("calisto_function_host", size_of::<Host>()),
        ("calisto_function", size_of::<Table>()),
    ];
    let numbers = [
        ("VERSION", VERSION as usize),
        ("COUNTERS", COUNTERS_MAX as usize),
        ("BATCH", base::BURST),
        ("NEXT", usize::from(NEXT)),
        ("DROP", usize::from(DROP)),
        ("OUT", usize::from(OUT)),
        ("UNKNOWN", usize::from(UNKNOWN)),
        ("VERIFIED", usize::from(VERIFIED)),
    ];
    let mut text = "#include <calisto_function.h>\n".to_owned();
    for (of, field, place) in places {
        text.push_str(&format!(
            "_Static_assert(offsetof(struct {of}, {field}) == {place}, \"\");\n"
        ));
    }
    for (of, size) in sizes {
        text.push_str(&format!("_Static_assert(sizeof(struct {of}) == {size}, \"\");\n"));
    }
    for (name, value) in numbers {
        text.push_str(&format!("_Static_assert(CALISTO_FUNCTION_{name} == {value}, \"\");\n"));
    }
    drop(compile("layout", &text));
}
