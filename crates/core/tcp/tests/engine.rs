//! All tests of the engine from outside as one program: it is built and linked once.

mod accepting;
mod acknowledging;
mod closing;
mod edges;
mod hostile;
mod leftovers;
mod link;
mod losses;
mod many;
mod opening;
mod options;
mod path;
mod reordering;
mod repair;
mod route;
mod rpc;
mod rules;
mod shares;
mod support;
mod time_limits;
mod waits;
mod wishes;
