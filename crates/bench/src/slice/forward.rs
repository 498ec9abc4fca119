//! Packets a second from one wire to the other: through a slice, and through everybody else.

use std::time::Duration;

use super::forwarder::Forwarder;
use super::rig::Rig;
use crate::cases::Plan;
use crate::error::Error;
use crate::figure::Figure;
use crate::report::Report;
use crate::sockets::turns::in_turns;

/// Bytes of the frames, without their checksums: the shortest that are usual, the longest.
pub(super) const FRAME_BYTES: [usize; 2] = [64, 1514];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let length = plan.pick(Duration::from_millis(500), Duration::from_millis(100));
    let cpus = plan.cpus;
    report.begin(
        "forward",
        &format!(
            "two veth pairs between two namespaces. Generator: BPF live frames on CPU {}, as many \
             as it can, UDP of 1024 flows; sink: XDP that counts and drops. Forwarders run on CPU \
             {}; the kernel's half of receiving runs where the generator does, and all of kernel \
             ip_forward and XDP redirect. Frames without their checksums",
            cpus.client, cpus.server
        ),
    )?;
    let mut rig = Rig::new(cpus)?;
    for frame_bytes in FRAME_BYTES {
        let mut absent: Vec<Option<String>> = vec![None; Forwarder::OTHERS.len()];
        let what = format!("{frame_bytes} B");
        let samples = in_turns(plan, report, &what, Forwarder::OTHERS.len(), |which| {
            if absent[which].is_some() {
                return Ok(None);
            }
            match rig.measure(Forwarder::OTHERS[which], frame_bytes, None, length) {
                Ok(window) => Ok(Some(window.mpps())),
                Err(Error::Needs { what, why }) => {
                    absent[which] = Some(Error::Needs { what, why }.to_string());
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        })?;
        for ((forwarder, samples), absent) in Forwarder::OTHERS.iter().zip(&samples).zip(absent) {
            let metric = format!("{what}: {}", forwarder.name());
            let samples: Vec<f64> = samples.iter().flatten().copied().collect();
            report.figure(match absent {
                None => Figure::new(metric, "Mpps", &samples),
                Some(why) => Figure::missing(metric, why),
            })?;
        }
    }
    Ok(())
}
