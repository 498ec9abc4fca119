//! Words that the code base had for itself and has no more, each with the field's word.
//!
//! A word that is plain English elsewhere is refused where it was a name only: in the folders that
//! its row gives, or as a phrase.

/// A word that is refused as a part of identifiers.
pub(crate) struct ReplacedName {
    /// In lower case; in `snake_case`, `CamelCase` and `UPPER_CASE` names it is the same word.
    pub(crate) old: &'static str,
    /// What to write.
    pub(crate) new: &'static str,
    /// Where; nothing: everywhere.
    pub(crate) within: &'static [&'static str],
}

const fn everywhere(old: &'static str, new: &'static str) -> ReplacedName {
    ReplacedName { old, new, within: &[] }
}

const fn within(
    old: &'static str,
    new: &'static str,
    within: &'static [&'static str],
) -> ReplacedName {
    ReplacedName { old, new, within }
}

const DAEMON: &str = "crates/plane/daemon/";
const DATAPATH: &str = "crates/plane/datapath/";
const STACK: &str = "crates/plane/stack/";
const SHM: &str = "crates/io/shm/";
const LOAD: &str = "crates/lab/load/";
const BENCH: &str = "crates/lab/bench/";
const CLIENT: &str = "crates/programs/client/";
const SIM: &str = "crates/lab/sim/";
const NETSIM: &str = "crates/lab/netsim/";

/// Parts of identifiers.
pub(crate) const NAMES: &[ReplacedName] = &[
    everywhere("agenda", "scheduler (`DrrScheduler`)"),
    everywhere("banish", "evict"),
    everywhere("banished", "evicted"),
    everywhere("bell", "doorbell, or notify_word for the futex of a slot"),
    everywhere("bells", "doorbells, or notifier"),
    everywhere("bury", "reap"),
    everywhere("convict", "report_running"),
    everywhere("crew", "worker_set"),
    everywhere("desk", "worker_thread or context"),
    everywhere("dismiss", "join a thread, detach an application"),
    everywhere("ear", "poller"),
    everywhere("ears", "pollers"),
    everywhere("expel", "detach"),
    everywhere("farewell", "closing"),
    everywhere("graves", "closed_members"),
    everywhere("grip", "class_guard"),
    everywhere("hire", "spawn"),
    everywhere("house", "socket_table, or harness in tests"),
    everywhere("junction", "local_pair"),
    everywhere("junctions", "local_pairs"),
    everywhere("keeper", "allocator (`CoreAllocator`)"),
    everywhere("ladder", "wait_strategy"),
    everywhere("ledger", "tracker"),
    everywhere("manner", "view_state, wait_mode or behaviour"),
    everywhere("mourn", "report_dead"),
    everywhere("nap", "parker or pause"),
    everywhere("patience", "timeout or yield_policy"),
    everywhere("seat", "core_grant"),
    everywhere("seated", "granted"),
    everywhere("seats", "core_grants"),
    everywhere("staff", "worker_pool"),
    everywhere("tally", "stats"),
    everywhere("theatre", "act_run"),
    within("door", "attach_server, or join_listener", &[DAEMON, "crates/plane/attach/"]),
    within(
        "front",
        "command_queue",
        &["crates/plane/daemon/src/engine.rs", "crates/plane/daemon/src/setup.rs"],
    ),
    within("ground", "context, tested_stack or shared", &[DATAPATH, STACK, BENCH, NETSIM]),
    within("guest", "app_dispatch, attached_app or helper", &[DATAPATH, STACK, DAEMON, BENCH]),
    within("lane", "worker_queue, dispatcher_port or shard", &[DATAPATH, STACK, DAEMON, SHM, LOAD]),
    within(
        "lanes",
        "worker_queues, dispatcher_ports or shards",
        &[DATAPATH, STACK, DAEMON, SHM, LOAD],
    ),
    within("letter", "connect_probe", &[DATAPATH, STACK, DAEMON]),
    within("lie", "violation", &[DATAPATH, STACK, DAEMON, SHM, CLIENT]),
    within("lied", "violation", &[DATAPATH, STACK, DAEMON, SHM, CLIENT]),
    within("mail", "commands", &[DATAPATH, STACK, DAEMON]),
    within("plant", "machine", &[SIM]),
    within("price", "cnt (RFC 9438)", &["crates/core/tcp/src/congestion/"]),
    within("station", "theory_queue", &[SIM]),
    within("train", "gso_batch", &[DATAPATH, STACK]),
    within("ways", "neighbours", &[STACK, "crates/plane/daemon/src/sockets"]),
];

/// Phrases in comments and documents, in lower case, and what to write.
pub(crate) const PHRASES: &[(&str, &str)] = &[
    ("a junction", "a local pair"),
    ("a lie", "a protocol violation"),
    ("an ear", "a poller"),
    ("core keeper", "core allocator"),
    ("for so long", "for this long, or the time's name"),
    ("its bell", "its doorbell, or its notify word"),
    ("its ear", "its poller"),
    ("its seat", "its core grant"),
    ("side door", "join listener"),
    ("in vain", "without success, or empty"),
    ("nobody's", "the noun: unowned, unclaimed, of no worker"),
    ("so many", "this many, or the number's name"),
    ("somebody who", "a thread that, a program that: the noun"),
    ("the agenda", "the scheduler"),
    ("the bell", "the doorbell, or the notify word"),
    ("the crew", "the worker set"),
    ("the door", "the attach server"),
    ("the ear", "the poller"),
    ("the house", "the socket table"),
    ("the junction", "the local pair"),
    ("the keeper", "the allocator"),
    ("waiting ladder", "wait strategy"),
];
