//! The command line of `doctor`.

use sys::cpu_set::CpuSet;

/// Settings of `doctor`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Look at this interface; may be given several times. [default: all that are up, without
    /// loopback]
    #[arg(long, value_name = "NAME")]
    pub nic: Vec<String>,
    /// Say also how near the NICs are to a slice on these CPUs, such as 2-3.
    ///
    /// A slice's memory is on the NUMA node of its CPUs; a NIC on another one crosses over for
    /// every packet.
    #[arg(long, value_name = "CPUS")]
    pub slice_cpus: Option<CpuSet>,
    /// Measure nothing: leave out what spinning, waking and clock reads cost here.
    ///
    /// Measuring takes about half a second and keeps up to 8 CPUs busy meanwhile: leave it out on a
    /// machine that serves traffic.
    #[arg(long)]
    pub quick: bool,
}
