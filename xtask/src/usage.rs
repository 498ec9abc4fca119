//! What `cargo xtask` says of itself, which documents are held against.

/// Every command with its options.
pub(crate) const USAGE: &str = "\
Usage: cargo xtask COMMAND

  tidy           check the project rules (xtask/src/rules.rs) over every file of the workspace
  book           check the documents: pages, links, anchors, lengths, variables, commands
  ci [--quick]   everything CI runs: fmt, clippy, tidy, book, tests, namespace tests, some of them
                 with optimized programs, loom models, the pages by mdBook; --quick leaves out the
                 last four
";
