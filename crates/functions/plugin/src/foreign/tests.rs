//! Objects that are compiled here, good ones and bad ones.

use std::path::PathBuf;
use std::process::Command;

use shm::{FramePool, PoolConfig};

use super::*;

/// A shared object, until it drops.
pub(crate) struct Compiled(PathBuf);

impl Drop for Compiled {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().expect("it is in a folder"));
    }
}

/// Compiles a text in C, with the header in reach.
pub(crate) fn compile(name: &str, text: &str) -> Compiled {
    let folder = std::env::temp_dir().join(format!("calisto-plugin-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
    let (source, object) = (folder.join("it.c"), folder.join("it.so"));
    std::fs::write(&source, text).expect("the folder is ours");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let mut command = Command::new("cc");
    // Some compilers have all functions looked up at once unless they are told otherwise.
    command.arg("-Wl,-z,lazy");
    command.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", include, "-o"]);
    let out = command.arg(&object).arg(&source).output().expect("there is a C compiler");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&object, mode).expect("it is ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&folder, mode).expect("it is ours");
    Compiled(object)
}

/// An object that does what the first byte of a packet says, and counts.
fn object(name: &str, version: u32) -> Compiled {
    let text = r#"
#include <calisto_function.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct state { uint64_t seen, left; };
static void *make(const struct calisto_function_host *host, size_t count,
                  const char *const *arguments, char *error, size_t bytes) {
  if (count == 1 && !strcmp(arguments[0], "speak"))
    snprintf(error, bytes, "port b is %d, port c is %d", host->port(host->chain, "b"),
             host->port(host->chain, "c"));
  return count ? NULL : calloc(1, sizeof(struct state));
}
static void process(void *state, struct calisto_function_packet *packets, size_t count, uint64_t now) {
  size_t i;
  for (i = 0; i < count; i++) {
    struct calisto_function_packet *packet = &packets[i];
    ((struct state *)state)->seen += now;
    packet->verdict = packet->data[0];
    packet->out = 7;
    if (packet->data[0] == 100) {
      packet->verdict = CALISTO_FUNCTION_NEXT;
      packet->data[packet->room - 1] = 1;
      packet->len = packet->room;
    }
    if (packet->data[0] == 101) {
      packet->verdict = CALISTO_FUNCTION_NEXT;
      packet->len = packet->room + 1;
    }
  }
}
static void leave(void *state, struct calisto_function_packet *packets, size_t count, uint64_t now) {
  size_t i;
  (void)now;
  for (i = 0; i < count; i++) {
    ((struct state *)state)->left += packets[i].port;
    if (packets[i].data[1])
      packets[i].verdict = packets[i].data[1];
  }
}
static void rd(const void *state, uint64_t *values) {
  values[0] = ((const struct state *)state)->seen;
  values[1] = ((const struct state *)state)->left;
}
static const struct calisto_function_counter counters[] = {{"seen", "Times."}, {"left", "Ports."}};
const struct calisto_function *calisto_function_1(void) {
  static const struct calisto_function function = {
      VERSION, 2, counters, make, process, leave, rd, 0, free,
  };
  return &function;
}
"#;
    compile(name, &text.replace("VERSION,", &format!("{version},")))
}

fn load(object: &Compiled, arguments: &[&str]) -> Result<Foreign, NotLoaded> {
    let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
    Foreign::load(&object.0, &arguments, &|name| (name == "b").then_some(PortId(1)))
}

fn counts(foreign: &Foreign) -> Vec<(String, u64)> {
    let mut counts = Vec::new();
    foreign.named_counters(&mut |name, _, value| counts.push((name.to_string(), value)));
    foreign.counters(&mut |name, _, value| counts.push((name.to_owned(), value)));
    counts
}

/// The verdicts on packets that begin so, and how long they are then.
fn decided(foreign: &mut Foreign, packets: &[[u8; 2]]) -> Vec<(Verdict, usize)> {
    let config = PoolConfig { frames: 16, chunk_bytes: 2048, ..PoolConfig::default() };
    let mut pool = FramePool::new(config).expect("a small pool");
    let mut batch = Batch::new();
    for packet in packets {
        let mut frame = pool.take().expect("there are more");
        assert!(frame.fill(&[&packet[..], &[0; 58]].concat()));
        batch.push(frame);
    }
    let mut verdicts = Verdicts::new();
    foreign.process(&mut batch, &mut verdicts, Nanos(5));
    foreign.leave(&mut batch, &mut verdicts, Nanos(5));
    let decided = verdicts.of(batch.len()).iter().copied();
    let decided = decided.zip(&batch).map(|(verdict, frame)| (verdict, frame.len())).collect();
    batch.drain(..).for_each(|frame| pool.give(frame));
    decided
}

#[test]
fn an_object_judges_changes_and_counts_packets_and_what_makes_no_sense_is_dropped() {
    let object = object("judges", 1);
    let mut foreign = load(&object, &[]).expect("it is right");
    let packets = [[0, 0], [1, 0], [2, 0], [2, 1], [2, 9], [3, 0], [100, 0], [101, 0]];
    let decided = decided(&mut foreign, &packets);
    let (next, out) = (Verdict::Next, Verdict::Out(PortId(7)));
    let verdicts: Vec<Verdict> = decided.iter().map(|(verdict, _)| *verdict).collect();
    let drop = Verdict::Drop;
    assert_eq!(verdicts, [next, drop, out, drop, drop, drop, next, drop]);
    assert!(decided[6].1 > 1024 && decided[7].1 == 60, "{decided:?}");
    let expected = [("seen", 8 * 5), ("left", 3 * 7), ("misbehaved", 3)];
    assert_eq!(counts(&foreign), expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn counters_go_on_where_an_object_takes_nothing_over() {
    let object = object("goes-on", 1);
    let mut old = load(&object, &[]).expect("it is right");
    decided(&mut old, &[[0, 0], [3, 0]]);
    let mut new = load(&object, &[]).expect("it is right");
    new.take_over(&mut old);
    drop(old);
    decided(&mut new, &[[0, 0]]);
    let mut last = load(&object, &[]).expect("it is right");
    last.take_over(&mut new);
    let expected = [("seen", 15), ("left", 0), ("misbehaved", 1)];
    assert_eq!(counts(&last), expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn what_is_no_object_of_this_version_or_does_not_want_to_is_refused_with_its_reason() {
    let said = |object: &Compiled, arguments: &[&str]| {
        load(object, arguments).expect_err("it is refused").to_string()
    };
    let right = object("refuses", 1);
    assert_eq!(said(&right, &["speak"]), "it says: port b is 1, port c is -1");
    assert_eq!(said(&right, &["be", "silent"]), "it refuses, without a word");
    let newer = object("newer", 2);
    assert!(said(&newer, &[]).contains("version 2"), "{}", said(&newer, &[]));
    let other = compile("other", "int calisto_function(void) { return 1; }");
    assert!(said(&other, &[]).contains("no calisto_function_1"));
    let empty = "const void *calisto_function_1(void) { return 0; }";
    assert_eq!(said(&compile("empty", empty), &[]), "it has no table");
    let none = Compiled(right.0.with_file_name("none.so"));
    assert!(said(&none, &[]).contains("No such file"));
    std::mem::forget(none);
}

#[test]
fn an_object_that_others_may_write_is_not_loaded() {
    let object = object("open", 1);
    let mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&object.0, mode).expect("it is ours");
    };
    for open in [0o775, 0o757] {
        mode(open);
        assert_eq!(load(&object, &[]).map(drop), Err(NotLoaded::NotOurs));
    }
    mode(0o755);
    assert!(load(&object, &[]).is_ok());
}

#[test]
fn an_object_in_a_folder_that_others_may_write_is_not_loaded() {
    let object = object("open-folder", 1);
    let inner = object.0.with_file_name("inner");
    std::fs::create_dir(&inner).expect("the folder is ours");
    let moved = inner.join("it.so");
    std::fs::copy(&object.0, &moved).expect("both are ours");
    let outer = object.0.parent().expect("it is in a folder");
    let tried = |outer_mode, inner_mode| {
        for (folder, mode) in [(outer, outer_mode), (&inner, inner_mode)] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(folder, mode).expect("it is ours");
        }
        Foreign::load(&moved, &[], &|_| None).map(drop)
    };
    let refused = |folder: &Path| {
        let folder = folder.canonicalize().expect("it is there");
        Err(NotLoaded::OpenFolder(folder.display().to_string()))
    };
    assert_eq!(tried(0o755, 0o775), refused(&inner));
    assert_eq!(tried(0o757, 0o755), refused(outer));
    // Where each may put files, but not touch those of others.
    assert_eq!(tried(0o1777, 0o755), Ok(()));
}

#[test]
fn an_object_that_calls_what_nobody_defines_is_refused_when_it_is_loaded() {
    let text = "void nobody_defines_this(void);\n\
                void later(void);\n\
                void later(void) { nobody_defines_this(); }\n\
                const void *calisto_function_1(void) { return 0; }\n";
    let object = compile("undefined", text);
    let said = load(&object, &[]).expect_err("it cannot run").to_string();
    assert!(said.contains("undefined symbol: nobody_defines_this"), "{said}");
}
