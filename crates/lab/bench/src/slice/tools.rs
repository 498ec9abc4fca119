//! The programs in C of this bench, compiled once: traffic, and forwarders as others write them.

use crate::error::Error;
use crate::sockets::programs::{Compiled, Source};

/// Makes, forwards and counts frames by programs in the kernel's XDP: see its first lines.
const XDP: Source = Source::new("xdp", include_str!("programs/xdp.c"));

/// A bridge by libpcap, loaded at run time: `FROM TO MILLISECONDS`.
const PCAP_FORWARD: Source = Source::new("pcap_forward", include_str!("programs/pcap_forward.c"));

/// A bridge by recvmmsg(2) and sendmmsg(2): `FROM TO MILLISECONDS`.
const MMSG_FORWARD: Source = Source::new("mmsg_forward", include_str!("programs/mmsg_forward.c"));

/// All of them.
pub(super) struct Tools {
    pub(super) xdp: Compiled,
    pub(super) pcap_forward: Compiled,
    pub(super) mmsg_forward: Compiled,
}

impl Tools {
    /// Compiles them.
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self {
            xdp: Compiled::new(XDP)?,
            pcap_forward: Compiled::new(PCAP_FORWARD)?,
            mmsg_forward: Compiled::new(MMSG_FORWARD)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_program_compiles_and_says_how_it_is_used() {
        let tools = Tools::new().expect("there is a compiler");
        let Tools { xdp, pcap_forward, mmsg_forward } = &tools;
        for (tool, name) in
            [(xdp, "xdp"), (pcap_forward, "pcap_forward"), (mmsg_forward, "mmsg_forward")]
        {
            let told = Command::new(tool.path()).output().expect("it runs");
            let told = String::from_utf8_lossy(&told.stderr).into_owned();
            assert!(told.starts_with(&format!("usage: {name}")), "{told}");
        }
    }
}
