//! Which CPUs an interrupt goes to: /proc/irq.

use std::fs;
use std::io::ErrorKind;

use rustix::io::Errno;

use crate::SysError;
use crate::cpu_set::CpuSet;

/// The CPUs that interrupt `irq` goes to.
///
/// # Errors
/// There is no such interrupt.
pub fn affinity(irq: u32) -> Result<CpuSet, SysError> {
    let doing = || format!("read where interrupt {irq} goes");
    let text = fs::read_to_string(path(irq)).map_err(|error| refused(doing(), &error))?;
    text.trim().parse().map_err(|_| SysError::new(doing(), Errno::BADMSG, "report this"))
}

/// Sends interrupt `irq` to `cpus`.
///
/// # Errors
/// No such interrupt, one that the kernel places itself, or we are not root.
pub fn set_affinity(irq: u32, cpus: &CpuSet) -> Result<(), SysError> {
    fs::write(path(irq), cpus.to_string())
        .map_err(|error| refused(format!("send interrupt {irq} to CPU {cpus}"), &error))
}

fn path(irq: u32) -> String {
    format!("/proc/irq/{irq}/smp_affinity_list")
}

fn refused(doing: String, error: &std::io::Error) -> SysError {
    let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => "run as root",
        ErrorKind::NotFound => "there is no such interrupt",
        // EIO of the kernel: such interrupts are bound to their CPUs.
        _ if errno == Errno::IO => "the kernel places it itself (a managed interrupt)",
        _ => "choose CPUs that are online",
    };
    SysError::new(doing, errno, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_that_there_are_tell_their_cpus_and_others_are_named() {
        let error = affinity(u32::MAX).expect_err("nobody has it").to_string();
        assert!(error.contains("interrupt 4294967295"), "{error}");
        assert!(set_affinity(u32::MAX, &CpuSet::only(0)).is_err());
        let numbers = fs::read_dir("/proc/irq").into_iter().flatten().flatten();
        let number =
            numbers.filter_map(|entry| entry.file_name().into_string().ok()?.parse().ok()).next();
        if let Some(irq) = number {
            assert!(!affinity(irq).expect("it is listed").is_empty());
        }
    }
}
