//! The project rules as data: who may depend on whom, where `unsafe` lives, which words are banned.
//!
//! Everything that a new crate must be entered in is in this file.

/// What a crate of `crates/` may depend on, and which rules it is under.
pub(crate) struct CrateRule {
    /// Where it is, below `crates/`: the folder that says what it is for, and its own.
    pub(crate) path: &'static str,
    /// The crates of this workspace that it may name in `[dependencies]`.
    pub(crate) may_use: &'static [&'static str],
    /// Whether time, randomness and the outside world are arguments to it.
    pub(crate) purity: Purity,
    /// Whether the keyword `unsafe` may appear in it.
    pub(crate) unsafety: Unsafety,
}

/// Whether a crate may look at the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purity {
    /// It may not, and carries the clippy.toml that holds it to that.
    Pure,
    /// It may: carrying or touching is its work.
    Worldly,
}

/// Whether a crate may contain `unsafe`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsafety {
    /// It may not, and says so to the compiler.
    Forbidden,
    /// It is one of the few homes of it.
    Home,
}

use Purity::{Pure, Worldly};
use Unsafety::{Forbidden, Home};

/// One row for each crate of `crates/`. Dependencies point one way: down this table's arrows,
/// never back up.
pub(crate) const CRATES: &[CrateRule] = &[
    row("core/base", &[], Pure, Forbidden),
    row("core/piece", &[], Pure, Home),
    row("core/wire", &["base"], Pure, Forbidden),
    row("core/policy", &["base"], Pure, Forbidden),
    row("core/sched", &["base"], Pure, Forbidden),
    row("plane/admin", &["base"], Pure, Forbidden),
    row("plane/config", &["base"], Pure, Forbidden),
    row("plane/metrics", &["admin"], Pure, Forbidden),
    row("core/tcp", &["base", "piece", "wire"], Pure, Forbidden),
    row("lab/packetdrill", &["base", "wire", "tcp"], Pure, Forbidden),
    row("io/shm", &["base", "piece", "sched"], Worldly, Home),
    row("io/sys", &["base"], Worldly, Home),
    row("io/confine", &["sys"], Worldly, Forbidden),
    row("functions/nf", &["base", "wire", "shm"], Pure, Forbidden),
    row("plane/attach", &["base", "sys"], Worldly, Forbidden),
    row("programs/client", &["base", "sched", "shm", "wire", "sys", "attach"], Worldly, Forbidden),
    row("programs/preload", &["base", "client", "sys", "attach"], Worldly, Home),
    row("io/port", &["base", "wire", "shm", "sys"], Worldly, Home),
    row("functions/slice", &["base", "sched", "wire", "shm", "sys", "port"], Worldly, Forbidden),
    row("programs/capi", &["base", "client", "port", "slice", "sys"], Worldly, Home),
    row("functions/crypto", &["base", "nf"], Worldly, Home),
    row("functions/plugin", &["base", "shm", "nf"], Worldly, Home),
    row(
        "plane/datapath",
        &["base", "sched", "wire", "policy", "shm", "port", "sys"],
        Worldly,
        Forbidden,
    ),
    row(
        "plane/stack",
        &["base", "piece", "wire", "tcp", "shm", "port", "datapath"],
        Worldly,
        Forbidden,
    ),
    row(
        "plane/daemon",
        &[
            "base", "sched", "wire", "policy", "tcp", "shm", "port", "sys", "admin", "attach",
            "config", "confine", "datapath", "stack",
        ],
        Worldly,
        Forbidden,
    ),
    row(
        "functions/chain",
        &["base", "wire", "shm", "sys", "port", "slice", "nf", "crypto", "plugin", "config"],
        Worldly,
        Forbidden,
    ),
    row("lab/testbed", &["base", "wire", "shm", "sys", "port"], Worldly, Forbidden),
    row("plane/doctor", &["base", "sys", "config"], Worldly, Forbidden),
    row("lab/load", &["base", "wire", "shm", "sys", "port", "client"], Worldly, Forbidden),
    row("lab/sim", &["base", "policy", "load"], Worldly, Forbidden),
    row(
        "lab/netsim",
        &["base", "wire", "policy", "tcp", "shm", "port", "datapath", "stack", "load", "sim"],
        Worldly,
        Forbidden,
    ),
    row("lab/report", &[], Worldly, Forbidden),
    row(
        "lab/experiments",
        &["base", "config", "policy", "tcp", "load", "sim", "netsim", "report"],
        Worldly,
        Forbidden,
    ),
    row(
        "lab/replay",
        &["base", "wire", "policy", "shm", "port", "datapath", "sys"],
        Worldly,
        Forbidden,
    ),
    row(
        "lab/bench",
        &[
            "base", "sched", "wire", "policy", "attach", "client", "datapath", "shm", "sys",
            "port", "testbed", "load", "tcp", "slice", "nf", "chain", "crypto", "sim", "netsim",
        ],
        Worldly,
        Forbidden,
    ),
];

const fn row(
    path: &'static str,
    may_use: &'static [&'static str],
    purity: Purity,
    unsafety: Unsafety,
) -> CrateRule {
    CrateRule { path, may_use, purity, unsafety }
}

impl CrateRule {
    /// The directory of the crate, from the root.
    pub(crate) fn dir(&self) -> String {
        format!("crates/{}", self.path)
    }
}

/// The row of the crate in `dir`.
pub(crate) fn rule_of(dir: &str) -> Option<&'static CrateRule> {
    CRATES.iter().find(|rule| rule.dir() == dir)
}

/// How many circles of modules a package may have: what it has, and never more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Circles {
    /// Groups of files that use each other, in the end, both ways.
    pub(crate) circles: usize,
    /// Files in all of these groups.
    pub(crate) files: usize,
}

/// Packages that have circles of modules, from before circles were counted. A number here only
/// ever falls, but for the files of `policy`: each new policy is one more. A package without a row
/// has none.
const CIRCLES: &[(&str, Circles)] = &[
    circles("admin", 1, 3),
    circles("bench", 3, 8),
    circles("calisto-lab", 1, 14),
    circles("daemon", 2, 14),
    circles("chain", 1, 2),
    circles("calisto-client", 1, 7),
    circles("config", 1, 3),
    circles("crypto", 1, 4),
    circles("doctor", 1, 4),
    circles("examples", 1, 4),
    circles("netsim", 3, 7),
    circles("experiments", 2, 18),
    circles("load", 4, 14),
    circles("calisto-nf", 3, 8),
    circles("packetdrill", 1, 2),
    circles("policy", 4, 26),
    circles("port", 3, 7),
    circles("replay", 1, 2),
    circles("shm", 2, 4),
    circles("sim", 3, 13),
    circles("calisto-slice", 1, 2),
    circles("tcp", 3, 21),
    circles("testbed", 1, 2),
];

const fn circles(package: &'static str, circles: usize, files: usize) -> (&'static str, Circles) {
    (package, Circles { circles, files })
}

/// The circles that a package may have.
pub(crate) fn circles_of(package: &str) -> Circles {
    let row = CIRCLES.iter().find(|(name, _)| *name == package);
    row.map_or(Circles { circles: 0, files: 0 }, |(_, allowed)| *allowed)
}

/// Fields of a struct that several files implement, at most.
pub(crate) const MAX_FIELDS: usize = 12;

/// Structs that have more, and how many: a row may shrink, and none is added.
const MANY_FIELDS: &[(&str, &str, usize)] = &[
    ("policy", "Control", 17),
    ("netsim", "Simulation", 17),
    ("sim", "AppPlan", 16),
    ("sim", "Machine", 22),
    ("sim", "Outcome", 14),
    ("daemon", "AttachServer", 17),
    ("daemon", "EventLoop", 18),
    ("datapath", "CoreAllocator", 19),
    ("datapath", "Steering", 25),
    ("stack", "Sockets", 16),
    ("stack", "SocketJob", 21),
    ("calisto-client", "Worker", 15),
];

/// The fields that a struct of a package may have when several files implement it.
pub(crate) fn fields_of(package: &str, name: &str) -> usize {
    let row = MANY_FIELDS.iter().find(|(of, is, _)| (*of, *is) == (package, name));
    row.map_or(MAX_FIELDS, |(.., fields)| *fields)
}

/// An id of `base`: no other crate has a type of that name, and where sockets are served nothing
/// of its name is a bare number.
pub(crate) struct Id {
    pub(crate) name: &'static str,
    /// A field or parameter as it was before there was the type.
    pub(crate) bare: &'static str,
}

/// The ids that were several types or bare numbers once.
pub(crate) const IDS: &[Id] = &[
    Id { name: "AppId", bare: "app: u16" },
    Id { name: "RegionId", bare: "region: u32" },
    Id { name: "SlotId", bare: "slot: u32" },
    Id { name: "Generation", bare: "generation: u32" },
];

/// Where the types of ids are declared.
pub(crate) const IDS_AT: &str = "crates/core/base/";

/// Where sockets are served and used. Messages are not among these places: what `attach` and
/// `admin` send are numbers, and whoever gets one says which id it is.
pub(crate) const SOCKETS_AT: &[&str] = &[
    "crates/io/shm/src/sockets/",
    "crates/plane/datapath/",
    "crates/plane/stack/",
    "crates/plane/daemon/",
    "crates/programs/",
];

/// The file whose copy every pure crate carries.
pub(crate) const PURE_CLIPPY: &str = "crates/core/base/clippy.toml";

/// Crates whose public functions say in their documentation which errors they return.
pub(crate) const USED_BY_STRANGERS: &[&str] = &[
    "crates/core/policy",
    "crates/core/tcp",
    "crates/functions/nf",
    "crates/functions/slice",
    "crates/programs/capi",
    "crates/programs/client",
];

/// Crates with loom models: unit tests whose names contain `loom`, built with `--cfg loom`.
pub(crate) const LOOM_CRATES: &[&str] = &["shm"];

/// More lines than this, tests not counted, and a file is more than one noun.
pub(crate) const MAX_LINES: usize = 400;

/// The same for a file whose whole content is tests.
pub(crate) const MAX_TEST_LINES: usize = 600;

/// Columns of the widest line of a comment.
pub(crate) const COMMENT_COLUMNS_MAX: usize = 100;

/// A word that stays out of the code, and what to write instead.
pub(crate) struct ForbiddenWord {
    pub(crate) word: &'static str,
    pub(crate) advice: &'static str,
    pub(crate) place: Scope,
}

/// Where a word is forbidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// In code: comments and the insides of strings do not count.
    Code,
    /// In code outside tests.
    CodeOutsideTests,
    /// In comments.
    Comment,
}

/// Words for Rust files.
pub(crate) const FORBIDDEN_WORDS: &[ForbiddenWord] = &[
    forbidden("todo!", Scope::Code, "write the code, or leave the feature out"),
    forbidden("unimplemented!", Scope::Code, "write the code, or leave the feature out"),
    forbidden("dbg!", Scope::Code, "remove it"),
    forbidden("#[ignore", Scope::Code, "a test that does not run protects nothing: fix it"),
    forbidden(
        ".unwrap()",
        Scope::CodeOutsideTests,
        "return the error, or write `.expect(\"the sentence that makes it impossible\")`",
    ),
    forbidden("FIXME", Scope::Comment, "fix it, or open an issue"),
    forbidden("XXX", Scope::Comment, "fix it, or open an issue"),
    forbidden("TODO", Scope::Comment, "do it, or open an issue"),
];

const fn forbidden(word: &'static str, place: Scope, advice: &'static str) -> ForbiddenWord {
    ForbiddenWord { word, advice, place }
}

/// Paths that exist on one machine only (in two halves, so that this file passes its own rule).
pub(crate) const MACHINE_PATHS: &[&str] =
    &[concat!("/", "work/"), concat!("/", "root/"), concat!("../", "shared")];
