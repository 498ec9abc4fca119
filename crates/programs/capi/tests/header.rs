//! The header is what the crate says.

use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config, DocumentationLength, Language, Style};

const UPDATE: &str = "CALISTO_UPDATE_HEADER";

fn config() -> Config {
    let mut config = Config {
        language: Language::C,
        style: Style::Tag,
        cpp_compat: true,
        documentation_length: DocumentationLength::Full,
        include_guard: Some("CALISTO_H".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        header: Some(HEAD.to_owned()),
        line_length: 100,
        ..Config::default()
    };
    for (rust, c) in [
        ("CalistoApp", "calisto_app"),
        ("CalistoListener", "calisto_listener"),
        ("CalistoOptions", "calisto_options"),
        ("CalistoPacket", "calisto_packet"),
        ("CalistoPort", "calisto_port"),
        ("CalistoSession", "calisto_session"),
        ("CalistoSlice", "calisto_slice"),
        ("CalistoSliceCounter", "calisto_slice_counter"),
        ("CalistoSliceOptions", "calisto_slice_options"),
        ("CalistoSlicePacket", "calisto_slice_packet"),
        ("CalistoStream", "calisto_stream"),
        ("CalistoUdp", "calisto_udp"),
        ("CalistoWorker", "calisto_worker"),
    ] {
        config.export.rename.insert(rust.to_owned(), c.to_owned());
    }
    config
}

const HEAD: &str = "\
/* libcalisto: sockets that the Calisto daemon serves, applications that take whole packets, and
 * slices.
 *
 * Sockets:
 *   calisto_session_open once, then calisto_tcp_listen and calisto_tcp_accept, or
 *     calisto_tcp_connect, then calisto_tcp_read and calisto_tcp_write, which wait
 *   What the daemon does not take goes on with the kernel, with the same calls. When the daemon
 *   dies, its connections fail with ECONNRESET within a second.
 *
 * Packets:
 *   calisto_attach, then for each worker a thread that repeats
 *     calisto_receive, work, calisto_send or calisto_done, calisto_flush, and
 *     calisto_wait when there was nothing
 *   and at the end calisto_detach.
 *
 * Slices (a queue of every NIC, some CPUs, their memory; no daemon):
 *   calisto_slice_open, then a loop of
 *     calisto_slice_read_multi, work, calisto_slice_write_multi
 *   and at the end calisto_slice_close.
 *
 * Numbers: 0 or more is success, less than 0 is one of the errors below, and calisto_error says
 * it in words; for CALISTO_SYSTEM calisto_errno says which errno.
 *
 * Threads: calisto_attach, calisto_worker, calisto_port and calisto_error may be called by any
 * thread. A worker, or a slice, and its packets belong to one thread at a time; a second one gets
 * CALISTO_BUSY. calisto_detach must be the last call. A process that forks goes on in one of the
 * two only.
 *
 * When the daemon dies or lets go of the application, every call for a worker says CALISTO_DETACHED
 * within a second; none waits longer. Detach then, and attach again.
 *
 * Generated from crates/programs/capi: see there to change it.
 */";

fn generate() -> String {
    let sources = [
        "failure",
        "packet",
        "app",
        "worker",
        "waiting",
        "session",
        "tcp",
        "udp",
        "slice_packet",
        "slices",
        "slice_control",
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut builder = Builder::new().with_config(config());
    for source in sources {
        builder = builder.with_src(folder.join(source).with_extension("rs"));
    }
    let mut header = Vec::new();
    builder.generate().expect("the crate compiles, so cbindgen reads it").write(&mut header);
    let header = String::from_utf8(header).expect("a header is text");
    // What Rust calls safety are the duties of the caller, which is all that C has.
    header.replace(" * # Safety\n", " * The caller's part:\n")
}

#[test]
fn the_header_is_what_the_crate_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("include/calisto.h");
    let header = generate();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &header).expect("the repository can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == header,
        "include/calisto.h is out of date: run `{UPDATE}=1 cargo test -p capi --test header` and \
         look at the difference"
    );
}
