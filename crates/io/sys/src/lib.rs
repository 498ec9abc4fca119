//! Linux, one noun per file: the system calls that are not about packets or shared memory.
//!
//! One of the crates that may use `unsafe`; everything it exports is safe to call. Errors that a
//! person will read are [`SysError`]: what was being done, what the kernel said, what to do.

/// What BPF programs there are.
pub mod bpf_query;
/// Effective capabilities of this thread.
pub mod capability;
/// What a program that we start is to begin with.
pub mod child;
/// CLOCK_MONOTONIC and the time-stamp counter.
pub mod clock;
/// Counting allocator, to prove that the steady state allocates nothing.
pub mod control_group;
pub mod counting_alloc;
/// A set of CPUs.
pub mod cpu_set;
/// The numbers of descriptors.
pub mod descriptor;
mod error;
/// Offloads and channels of an interface.
pub mod ethtool;
/// A counter that a sleeping thread can poll.
pub mod eventfd;
/// Stop a tree of processes, and let it go on.
pub mod freezer;
/// Sleep until a word changes.
pub mod futex;
/// Memory whose pages never come.
#[cfg(any(test, feature = "thief"))]
pub mod held_memory;
/// What the kernel knows of its network interfaces, and how to change it.
pub mod interface;
/// Which CPUs an interrupt goes to.
pub mod irq;
/// Give a packet to this host's own stack.
pub mod local_delivery;
/// How much memory may be locked.
pub mod memlock;
/// Many UDP datagrams by one system call.
pub mod mmsg;
/// The link addresses of neighbours.
pub mod neighbour;
/// What changes of links, addresses, routes and neighbours: which kinds, or every entry.
pub mod net_changes;
/// What a driver says of its XDP.
pub mod netdev;
mod netlink;
/// Network namespaces, per thread.
pub mod netns;
/// Whether packet filters guard this host.
pub mod nftables;
/// The NUMA node of an interface and of a CPU.
pub mod numa;
/// How many files may be open.
pub mod open_files;
/// A thread, of whatever process, that cannot be mistaken for its successor.
pub mod other_thread;
/// Filter expressions in the language of tcpdump.
pub mod pcap;
/// A process that cannot be mistaken for its successor.
pub mod pidfd;
/// Wait for one of several descriptors.
pub mod poll;
/// Many descriptors behind one.
pub mod poll_set;
/// Keep a TCP port from others in the kernel.
pub mod port_guard;
/// Which sockets a process has open.
pub mod process_sockets;
/// All processes and threads below one.
pub mod process_tree;
/// Bytes that nobody can guess.
pub mod random;
/// A file that a person names: regular, bounded, text.
pub mod regular_file;
/// Which way the kernel would send a packet.
pub mod route;
/// SCHED_IDLE, for work that anything may displace.
pub mod scheduling;
/// SIGINT and SIGTERM as a flag, and the signal that nudges a thread.
pub mod signal;
/// Signals as something to read.
pub mod signal_fd;
/// The means by which a consumer sleeps.
pub mod sleep;
/// What a socket is, by its descriptor.
pub mod socket;
/// Which sockets have come to their end.
pub mod socket_end;
/// What was set on a socket that only the kernel can honour.
pub mod socket_options;
/// Whose socket the kernel would give a packet to.
pub mod socket_owner;
/// Time that the hypervisor took from our CPUs.
pub mod steal;
/// Which TCP connections the kernel has.
pub mod tcp_connections;
/// What the kernel tells of its TCP connections.
pub mod tcp_info;
/// Have the kernel go on with a TCP connection that somebody else had.
pub mod tcp_repair;
#[cfg(test)]
mod testing;
/// What a thread tries that somebody else has taken over.
#[cfg(feature = "thief")]
pub mod thief;
/// Threads: where they run and what they are called.
pub mod thread;
/// Static trace points.
pub mod trace;
pub mod traffic_filters;
/// UNIX sockets: who is at the other end, and what it may pass.
pub mod unix_socket;
/// Users by their names.
pub mod users;
/// Wake a sleeper in a process that need not be trusted.
pub mod waker;
/// Files that are written whole or not at all.
pub mod whole_file;
pub mod xfrm;

pub use error::SysError;
