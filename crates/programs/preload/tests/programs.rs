//! A C program under the library, against a small daemon: each of its cases on the kernel's sockets
//! and on those of the data plane.

#[path = "../../client/tests/common/streams.rs"]
mod streams;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use streams::Daemon;

/// The library as cargo has built it for this test.
fn library() -> PathBuf {
    let mut path = std::env::current_exe().expect("proc is mounted");
    path.set_file_name("libcalisto_preload.so");
    path
}

/// A program of `tests/c`, built once for all tests of this process.
fn program(name: &'static str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(name).or_insert_with(|| build(name)).clone()
}

/// The name of a source, with one more option of the compiler behind a space perhaps.
fn build(name: &str) -> PathBuf {
    let (source, option) = name.split_once(' ').map_or((name, None), |(name, it)| (name, Some(it)));
    let file = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{source}.c"));
    // In the folder of the build, under one name, so that runs leave one file in all; beside it
    // first, because another run may be using it.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(format!("preload-{file}"));
    let beside = folder.join(format!("preload-{file}-{}", std::process::id()));
    let built = Command::new("cc")
        .args(option)
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o"])
        .arg(&beside)
        .arg(source)
        .output()
        .expect("a C compiler is installed as `cc`");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    std::fs::rename(&beside, &program).expect("the folder is the build's");
    program
}

/// Runs a command to its end, which must be a good one.
fn must_succeed(command: &mut Command, what: &str) {
    let output = command.output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{said}", output.status);
}

/// A case on the kernel's sockets, and then on ours, with and without patience before a sleep.
fn case(source: &'static str, name: &str) {
    must_succeed(Command::new(program(source)).arg(name), "on the kernel's sockets");
    for profile in ["safe", "latency"] {
        let daemon = Daemon::start();
        let socket = daemon.options().socket.expect("it has one");
        must_succeed(
            Command::new(program(source))
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
    ($source:literal: $($sentence:ident: $name:literal;)*) => {$(
        #[test]
        fn $sentence() {
            case($source, $name);
        }
    )*};
}

cases! {
    "sockets":
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

cases! {
    "corners":
    numbers_beyond_the_table_are_no_business_of_select: "select_of_more_than_there_are";
    sets_are_as_large_as_their_numbers_need: "select_of_high_numbers";
    what_cannot_be_read_again_is_not_sent: "sendfile_of_what_flows";
    a_child_of_vfork_changes_nothing_of_its_parent: "vfork_changes_nothing_of_its_parent";
    rings_of_liburing_are_refused: "rings_are_refused";
    a_handler_of_a_signal_may_fork_wherever_it_comes: "fork_in_a_handler";
    masks_of_calls_that_do_not_wait_let_signals_through: "masks_of_calls_that_do_not_wait";
    a_list_is_as_long_as_there_may_be_descriptors: "poll_of_the_longest_list";
    libcs_own_streams_read_and_write_sockets: "standard_streams";
    streams_are_made_of_sockets_that_are_connected_later: "streams_of_what_is_connected_later";
    whether_a_handler_ends_a_call_is_said_by_its_own_signal: "each_signal_ends_calls_or_not";
    a_child_that_was_made_by_number_has_numbers_of_its_own: "a_child_by_number_has_its_own";
}

#[test]
fn libraries_that_are_bound_past_others_are_served() {
    program("deep -shared");
    case("corners", "deep_library");
}

cases! {
    "allocator":
    an_allocator_that_closes_itself_around_forks_is_open_in_the_child: "fork";
    a_look_at_descriptors_takes_no_memory: "looks_take_no_memory";
}

cases! {
    "sockets -fsanitize=address":
    a_program_that_was_built_with_address_sanitizer_is_served: "echo";
    a_program_that_was_built_with_address_sanitizer_forks: "fork";
}
