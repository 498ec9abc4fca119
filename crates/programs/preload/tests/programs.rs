//! A C program under the library, against a small daemon: each of its cases on the kernel's sockets
//! and on those of the data plane.

#[path = "../../client/tests/common/streams.rs"]
mod streams;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use streams::Daemon;

/// The library as cargo has built it for this test.
fn library() -> PathBuf {
    let mut path = std::env::current_exe().expect("proc is mounted");
    path.set_file_name("libcalisto_preload.so");
    path
}

/// The program, built once for all tests of this process.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/sockets.c");
        let program = std::env::temp_dir().join(format!("calisto-c-{}", std::process::id()));
        let built = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .output()
            .expect("a C compiler is installed as `cc`");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        program
    })
}

/// Runs a command to its end, which must be a good one.
fn must_succeed(command: &mut Command, what: &str) {
    let output = command.output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{said}", output.status);
}

/// A case on the kernel's sockets, and then on ours, with and without patience before a sleep.
fn case(name: &str) {
    must_succeed(Command::new(program()).arg(name), "on the kernel's sockets");
    for profile in ["safe", "latency"] {
        let daemon = Daemon::start();
        let socket = daemon.options().socket.expect("it has one");
        must_succeed(
            Command::new(program())
                .arg(name)
                .env("LD_PRELOAD", library())
                .env("CALISTO_APPS", socket)
                .env("CALISTO_PROFILE", profile)
                .env("ACCELERATED", "1"),
            profile,
        );
    }
}

macro_rules! cases {
    ($($(#[$about:meta])* $sentence:ident: $name:literal;)*) => {$(
        #[test]
        fn $sentence() {
            case($name);
        }
    )*};
}

cases! {
    bytes_come_back_through_blocking_and_nonblocking_sockets: "echo";
    names_of_both_ends_are_right_and_accepted_flags_are_the_callers: "names";
    a_nonblocking_connect_is_in_progress_then_ready_then_done: "nonblocking_connect";
    a_refused_descriptor_can_connect_to_somewhere_else: "refused";
    a_half_closed_connection_still_carries_the_other_way: "half_close";
    a_broken_pipe_comes_with_its_signal_unless_it_is_not_wanted: "broken_pipe";
    flags_of_receiving_do_what_they_say: "flags";
    a_reader_waits_for_all_bytes_or_for_its_low_mark: "waitall";
    bad_addresses_are_errors: "bad_addresses";
    lists_of_buffers_and_of_messages_are_carried: "lists";
    duplicates_share_one_open_file_and_the_last_close_ends_it: "dup";
    a_set_tells_levels_edges_and_once_and_forgets_what_is_closed: "epoll";
    a_sleeper_in_a_set_is_woken: "epoll_sleeps";
    kernel_members_of_a_set_are_not_starved: "epoll_mixed";
    a_set_in_a_set_tells_the_outer_one: "epoll_in_epoll";
    all_members_of_a_set_have_their_turn: "epoll_many";
    two_threads_in_one_set_are_both_woken: "epoll_threads";
    a_member_that_is_added_ready_wakes_the_sleeper: "epoll_add_wakes";
    poll_takes_long_lists_of_both_kinds: "poll";
    select_tells_and_leaves_the_time_that_was_left: "select";
    signal_masks_are_set_for_the_wait_alone: "signal_mask";
    interrupted_calls_go_on_or_end_as_the_handler_was_set: "interrupted";
    a_forked_child_shares_the_connection_and_its_close_ends_nothing: "fork";
    forked_children_accept_from_one_listener: "fork_accepts";
    children_that_close_everything_close_only_their_own: "children_that_close_everything";
    a_program_that_closes_everything_goes_on_being_served: "close_everything";
    a_reader_whose_descriptor_is_replaced_wakes_up: "replaced_while_reading";
    a_shutdown_wakes_whoever_waits: "shutdown_wakes";
    a_connection_waits_while_there_are_no_descriptors: "no_more_descriptors";
    files_are_sent: "sendfile";
    pipes_and_sockets_are_spliced: "splice";
    options_are_inherited_kept_and_told: "options";
    calls_by_number_are_calls_by_name: "by_number";
    streams_of_stdio_read_and_write_sockets: "streams";
    mapped_addresses_look_as_the_socket_family_shows_them: "mapped";
    a_reader_can_be_canceled: "canceled";
    a_signal_handler_may_close_what_the_program_waits_for: "close_in_a_handler";
    a_program_keeps_its_own_handler_of_faults: "own_fault_handler";
    a_connection_can_be_dissolved: "disconnect";
    a_blocking_writer_waits_for_room: "blocking_writer";
}
