//! The command line of `doctor`.

/// Settings of `doctor`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Look at this interface; may be given several times. [default: all that are up, without
    /// loopback]
    #[arg(long, value_name = "NAME")]
    pub nic: Vec<String>,
    /// Measure nothing: leave out what spinning, waking and clock reads cost here.
    ///
    /// Measuring takes about half a second and keeps up to 8 CPUs busy meanwhile: leave it out on a
    /// machine that serves traffic.
    #[arg(long)]
    pub quick: bool,
}
