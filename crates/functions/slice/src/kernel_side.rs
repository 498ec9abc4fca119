//! The kernel's half of a slice: the CPUs on which it receives for the slice's queues.
//!
//! A NIC's interrupt starts the work, and its CPUs can be chosen. A device without interrupts (a
//! veth) does it wherever its sender runs, unless it is given a thread. With `busy_poll` the
//! slice's own system calls do it, on the slice's own CPU.

use std::fmt;

use port::{AnyPort, OpenError, Port};
use sys::cpu_set::CpuSet;
use sys::irq;
use sys::other_thread::OtherThread;
use sys::pidfd::PidFd;

use crate::{Slice, SliceError};

/// Where the kernel works for one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelSide {
    /// Where this interrupt goes.
    Interrupt {
        /// Its number in /proc/interrupts.
        irq: u32,
        /// The CPUs that it may go to.
        cpus: CpuSet,
    },
    /// In a thread of the kernel's for this queue.
    Thread {
        /// Its process id.
        pid: u32,
        /// The CPUs that it may run on.
        cpus: CpuSet,
    },
    /// Where the slice runs, in its own system calls.
    Slice,
    /// Wherever the packets come from: the device has neither interrupt nor thread.
    Sender,
    /// This kind of port has no queue of its own in the kernel, or the kernel does not tell: why.
    Unknown(String),
}

impl fmt::Display for KernelSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupt { irq, cpus } => write!(f, "interrupt {irq} on CPU {cpus}"),
            Self::Thread { pid, cpus } => write!(f, "kernel thread {pid} on CPU {cpus}"),
            Self::Slice => f.write_str("busy polling, on the slice's own CPU"),
            Self::Sender => f.write_str("wherever the sender runs"),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

impl Slice<AnyPort> {
    /// Where the kernel works for each port.
    pub fn kernel_cpus(&self) -> Vec<KernelSide> {
        self.ports.iter().map(kernel_side).collect()
    }

    /// Has the kernel work for this slice on `cpus`: moves the interrupts of its queues there; a
    /// queue without one gets a thread of the kernel's there, which costs a wake-up for each burst.
    /// They stay so when the slice is closed, like everything that ethtool(8) sets. Ports that are
    /// busy-polled, and those without a queue of their own, are left as they are.
    ///
    /// # Errors
    /// What the kernel did not let us do; ports before that one are changed.
    pub fn set_kernel_cpus(&mut self, cpus: &CpuSet) -> Result<(), SliceError> {
        let ports = self.ports.iter().filter_map(|port| Some((port, port.as_xdp()?)));
        for (port, xdp) in ports.filter(|(_, xdp)| !xdp.is_busy_polled()) {
            let failed = |error| SliceError::port(&self.name, &port.capabilities().name, error);
            let mut napi = xdp.napi().map_err(failed)?;
            if napi.irq.is_none() && napi.thread.is_none() {
                xdp.set_threaded(true).map_err(failed)?;
                napi = xdp.napi().map_err(failed)?;
            }
            if let Some(irq) = napi.irq {
                irq::set_affinity(irq, cpus).map_err(|error| failed(error.into()))?;
            }
            if let Some(pid) = napi.thread {
                place_thread(pid, cpus).map_err(failed)?;
            }
        }
        Ok(())
    }
}

fn kernel_side(port: &AnyPort) -> KernelSide {
    let Some(port) = port.as_xdp() else {
        return KernelSide::Unknown("only AF_XDP ports are one queue".to_owned());
    };
    if port.is_busy_polled() {
        return KernelSide::Slice;
    }
    let napi = match port.napi() {
        Ok(napi) => napi,
        Err(error) => return KernelSide::Unknown(error.to_string()),
    };
    // A thread is started by the interrupt, if there is one, but does the work.
    match (napi.thread, napi.irq) {
        (Some(pid), _) => match thread(pid).and_then(|thread| thread.affinity().ok()) {
            Some(cpus) => KernelSide::Thread { pid, cpus },
            None => KernelSide::Unknown(format!("kernel thread {pid} has ended")),
        },
        (None, Some(irq)) => match irq::affinity(irq) {
            Ok(cpus) => KernelSide::Interrupt { irq, cpus },
            Err(error) => KernelSide::Unknown(error.to_string()),
        },
        (None, None) => KernelSide::Sender,
    }
}

fn thread(pid: u32) -> Option<OtherThread> {
    OtherThread::find(&PidFd::open(pid).ok()?, pid).ok()
}

fn place_thread(pid: u32, cpus: &CpuSet) -> Result<(), OpenError> {
    use sys::other_thread::Unchanged;
    let gone = || OpenError::Setting(format!("kernel thread {pid} has ended: try again"));
    match thread(pid).ok_or_else(gone)?.set_affinity(cpus) {
        Ok(()) => Ok(()),
        Err(Unchanged::Gone) => Err(gone()),
        Err(Unchanged::Refused(error)) => Err(error.into()),
    }
}
