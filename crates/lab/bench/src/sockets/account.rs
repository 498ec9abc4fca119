//! Whose work a sample of perf(1) is: driver, IP and TCP, sockets, application.
//!
//! A sample is a chain of functions, the innermost first. It belongs to the innermost function that
//! is anybody's: a copy of memory, a lock or an allocation is its caller's. On a veth the sender
//! also runs the receiver's half of the wire and of the stack behind it; so what is called from
//! `net_rx_action` belongs to the other side.

/// Where time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// Interfaces, rings, what a packet is carried in.
    Driver,
    /// IP and TCP.
    Protocol,
    /// System calls and library calls on sockets, and waiting for them.
    Sockets,
    /// The program itself.
    Application,
    /// Choosing and changing whom a CPU works for.
    Scheduler,
    /// Nothing to do.
    Idle,
    /// None of these.
    Other,
}

/// In the order of a table.
pub(super) const LAYERS: [Layer; 7] = [
    Layer::Driver,
    Layer::Protocol,
    Layer::Sockets,
    Layer::Application,
    Layer::Scheduler,
    Layer::Idle,
    Layer::Other,
];

impl Layer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Protocol => "IP and TCP",
            Self::Sockets => "sockets",
            Self::Application => "application",
            Self::Scheduler => "scheduler",
            Self::Idle => "idle",
            Self::Other => "other",
        }
    }
}

/// Whose function it is by how its name begins: the first rule that fits counts.
const KERNEL: &[(&str, Layer)] = &[
    ("pv_native_safe_halt", Layer::Idle),
    ("native_safe_halt", Layer::Idle),
    ("default_idle", Layer::Idle),
    ("acpi_", Layer::Idle),
    ("cpuidle_", Layer::Idle),
    ("do_idle", Layer::Idle),
    ("xsk_", Layer::Driver),
    ("__xsk_", Layer::Driver),
    ("xp_", Layer::Driver),
    ("xdp_", Layer::Driver),
    ("__xdp_", Layer::Driver),
    ("bpf_", Layer::Driver),
    ("veth_", Layer::Driver),
    ("napi_", Layer::Driver),
    ("__napi_", Layer::Driver),
    ("net_rx_action", Layer::Driver),
    ("process_backlog", Layer::Driver),
    ("netif_", Layer::Driver),
    ("__netif_", Layer::Driver),
    ("dev_", Layer::Driver),
    ("__dev_", Layer::Driver),
    ("sch_direct_xmit", Layer::Driver),
    ("validate_xmit", Layer::Driver),
    ("skb_gso", Layer::Driver),
    ("eth_", Layer::Driver),
    ("page_pool_", Layer::Driver),
    ("sock_def_readable", Layer::Sockets),
    ("sock_def_write", Layer::Sockets),
    ("tcp_poll", Layer::Sockets),
    ("tcp_", Layer::Protocol),
    ("__tcp_", Layer::Protocol),
    ("bbr_", Layer::Protocol),
    ("bictcp_", Layer::Protocol),
    ("cubictcp_", Layer::Protocol),
    ("inet_csk", Layer::Protocol),
    ("inet_ehash", Layer::Protocol),
    ("__inet_lookup", Layer::Protocol),
    ("ip_", Layer::Protocol),
    ("__ip_", Layer::Protocol),
    ("ipv4_", Layer::Protocol),
    ("fib_", Layer::Protocol),
    ("nf_", Layer::Protocol),
    ("neigh_", Layer::Protocol),
    ("arp_", Layer::Protocol),
    ("inet_send_prepare", Layer::Sockets),
    ("inet_sendmsg", Layer::Sockets),
    ("inet_recvmsg", Layer::Sockets),
    ("sock_", Layer::Sockets),
    ("__sock_", Layer::Sockets),
    ("sockfd_", Layer::Sockets),
    ("security_socket", Layer::Sockets),
    ("ep_", Layer::Sockets),
    ("do_epoll", Layer::Sockets),
    ("eventpoll_", Layer::Sockets),
    ("pipe_", Layer::Sockets),
    ("anon_pipe_", Layer::Sockets),
    ("eventfd_", Layer::Sockets),
    ("futex_", Layer::Sockets),
    ("do_futex", Layer::Sockets),
    ("schedule", Layer::Scheduler),
    ("__schedule", Layer::Scheduler),
    ("do_sched_yield", Layer::Scheduler),
    ("yield_", Layer::Scheduler),
    ("pick_", Layer::Scheduler),
    ("finish_task_switch", Layer::Scheduler),
    ("try_to_wake_up", Layer::Scheduler),
    ("ttwu_", Layer::Scheduler),
    ("sched_", Layer::Scheduler),
    ("flush_smp_call", Layer::Scheduler),
    ("ksys_", Layer::Sockets),
    ("vfs_", Layer::Sockets),
    ("__x64_sys_", Layer::Sockets),
    ("__se_sys_", Layer::Sockets),
    ("__sys_", Layer::Sockets),
    ("do_syscall_64", Layer::Sockets),
    ("entry_SYSCALL", Layer::Sockets),
    ("syscall_", Layer::Sockets),
];

/// The same for functions of our own programs: a part of the name, because it has its crate in it.
const OURS: &[(&str, Layer)] = &[
    ("tcp::", Layer::Protocol),
    ("wire::", Layer::Protocol),
    ("port::", Layer::Driver),
    ("policy::", Layer::Driver),
    ("stack::built_in", Layer::Driver),
    ("stack::", Layer::Sockets),
    ("shm::sockets", Layer::Sockets),
    ("datapath::", Layer::Driver),
    ("shm::", Layer::Driver),
    ("calisto_client::", Layer::Sockets),
    ("preload::", Layer::Sockets),
];

/// One function of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) symbol: String,
    /// The file that it is in, or `[kernel.kallsyms]`.
    pub(super) object: String,
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// Name of the thread.
    pub(super) thread: String,
    pub(super) pid: u32,
    pub(super) cpu: usize,
    /// The innermost first.
    pub(super) frames: Vec<Frame>,
}

impl Sample {
    /// Whether it is work for packets that this CPU has just sent to the other side.
    pub(super) fn is_other_side(&self) -> bool {
        self.frames.iter().any(|frame| frame.symbol == "net_rx_action")
    }

    /// Whose work it is when `program` is the application's file and `libraries` begin the names of
    /// files that are sockets to it.
    pub(super) fn layer(&self, program: &str, libraries: &[&str]) -> Layer {
        self.frames.iter().find_map(|frame| frame.layer(program, libraries)).unwrap_or(Layer::Other)
    }
}

impl Frame {
    fn is_kernel(&self) -> bool {
        // perf(1) writes programs of BPF and modules in brackets, too.
        self.object.starts_with('[') && self.object != "[vdso]"
            || self.object.starts_with("bpf_prog_")
    }

    fn file(&self) -> &str {
        self.object.rsplit('/').next().unwrap_or_default()
    }

    fn layer(&self, program: &str, libraries: &[&str]) -> Option<Layer> {
        let symbol = self.symbol.as_str();
        if self.is_kernel() {
            return KERNEL.iter().find(|(begin, _)| symbol.starts_with(begin)).map(|&(_, it)| it);
        }
        let file = self.file();
        if file == "calistod" {
            let own = OURS.iter().find(|(part, _)| symbol.contains(part)).map(|&(_, it)| it);
            return own.or(Some(Layer::Sockets));
        }
        if libraries.iter().any(|begin| file.starts_with(begin)) {
            return Some(Layer::Sockets);
        }
        (file == program).then_some(Layer::Application)
    }
}

/// Reads what `perf script -F comm,pid,tid,cpu,ip,sym,dso` prints.
pub(super) fn samples_in(text: &str) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        if line.trim().is_empty() {
            is_open = false;
        } else if !line.starts_with(char::is_whitespace) || !is_open {
            is_open = head_in(line).map(|sample| samples.push(sample)).is_some();
        } else if let (Some(sample), Some(frame)) = (samples.last_mut(), frame_in(line)) {
            sample.frames.push(frame);
        }
    }
    samples
}

/// `name with words  123/124 [001]`, perhaps with more behind it.
fn head_in(line: &str) -> Option<Sample> {
    let (before, after) = line.split_once('[')?;
    let cpu = after.split_once(']')?.0.trim().parse().ok()?;
    let (thread, numbers) = before.trim().rsplit_once(char::is_whitespace)?;
    let pid = numbers.split('/').next()?.parse().ok()?;
    Some(Sample { thread: thread.trim().to_owned(), pid, cpu, frames: Vec::new() })
}

/// `  ffffffff81 tcp_sendmsg ([kernel.kallsyms])`; symbols of Rust may have spaces.
fn frame_in(line: &str) -> Option<Frame> {
    let (_, rest) = line.trim().split_once(' ')?;
    let (symbol, object) = rest.rsplit_once(" (")?;
    // With an offset behind a plus sign where perf(1) is told to print one.
    let symbol = symbol.split("+0x").next()?.trim().to_owned();
    Some(Frame { symbol, object: object.trim_end_matches(')').to_owned() })
}

#[cfg(test)]
mod tests;
