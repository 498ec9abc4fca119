//! `load udp`: UDP requests to one target, and what came back.

use port::{AnyPort, PortSpec};

use crate::run::Options;
use crate::transport::kernel::{KernelConfig, KernelUdp};
use crate::transport::packets::Packets;
use crate::{Error, Report};

mod args;
mod next_hop;
mod open_port;

pub use args::{Args, TransportKind};

/// Generates the load that `args` asks for, and reports. `json` decides the form of the progress
/// lines of `--live`; printing the report is the caller's. Thresholds of `--check` are applied: see
/// [`Report::failed_checks`]. Ends early, with a report, once `sys::signal::stop_requested()`.
///
/// # Errors
/// Settings that make no sense ([`Error::is_usage`]), a histogram log that cannot be made, or what
/// the kernel refused; nothing was sent then.
pub fn run(args: &Args, json: bool) -> Result<Report, Error> {
    let plan = args.plan()?;
    let options = args.options(json);
    let sources = args.sources();
    let hdr_log = args.common.hdr_log()?;
    let report = match &args.transport {
        TransportKind::Kernel => {
            let open = |plan: &crate::Plan, _| {
                KernelUdp::open(&KernelConfig {
                    target: args.target,
                    sources,
                    flows: plan.flows,
                    payload_bytes: plan.payload_bytes,
                    first_port: args.source_port,
                })
            };
            crate::run(&plan, &options, open, Some(KernelUdp::split))?
        }
        TransportKind::Port(spec) => run_port(args, &plan, &options, spec)?,
    };
    Ok(args.common.finish(report, hdr_log))
}

fn run_port(
    args: &Args,
    plan: &crate::Plan,
    options: &Options,
    spec: &PortSpec,
) -> Result<Report, Error> {
    if options.threads > 1 || options.split {
        return Err(Error::Setting(
            "one thread sends and receives by a port: leave out --threads and --split, or start \
             the load generator once for each queue"
                .to_owned(),
        ));
    }
    let sources = args.sources().ok_or_else(|| {
        Error::Setting(
            "a port has no address of its own: give --source-ip or --source-prefix".to_owned(),
        )
    })?;
    let open = |plan: &crate::Plan, _| -> Result<Packets<AnyPort>, Error> {
        open_port::open(args, plan, spec, sources)
    };
    crate::run(plan, options, open, None)
}

#[cfg(test)]
mod tests;
