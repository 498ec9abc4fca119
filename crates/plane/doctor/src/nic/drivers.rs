//! Since when which driver has native XDP and zero copy: for kernels that do not tell (before 6.3).

use crate::kernel::KernelVersion;

/// What is known of a driver of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownDriver {
    /// As `ethtool -i` names it.
    name: &'static str,
    /// The first kernel where a native program may redirect into AF_XDP sockets.
    pub(super) native: KernelVersion,
    /// The first where AF_XDP works without a copy.
    pub(super) zero_copy: Option<KernelVersion>,
}

/// The oldest kernel with XDP ports; what was there before it counts as there since it.
const OLDEST: (u32, u32) = (5, 9);

/// Source: the history of drivers/net in Linux.
const KNOWN: &[KnownDriver] = &[
    row("bnxt_en", OLDEST, None),
    row("ena", (5, 11), None),
    row("gve", (6, 4), Some((6, 4))),
    row("i40e", OLDEST, Some(OLDEST)),
    row("ice", OLDEST, Some(OLDEST)),
    row("igb", (5, 10), Some((6, 14))),
    row("igc", (5, 13), Some((5, 14))),
    row("ixgbe", OLDEST, Some(OLDEST)),
    row("mlx5_core", OLDEST, Some(OLDEST)),
    row("st_gmac", (5, 13), Some((5, 13))),
    row("tun", OLDEST, None),
    row("veth", OLDEST, None),
    row("virtio_net", OLDEST, Some((6, 13))),
];

const fn row(name: &'static str, native: (u32, u32), zero_copy: Option<(u32, u32)>) -> KnownDriver {
    let zero_copy = match zero_copy {
        Some((major, minor)) => Some(KernelVersion(major, minor)),
        None => None,
    };
    KnownDriver { name, native: KernelVersion(native.0, native.1), zero_copy }
}

/// The row of a driver.
pub(super) fn known(name: &str) -> Option<&'static KnownDriver> {
    KNOWN.iter().find(|driver| driver.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_copy_never_came_before_native_xdp() {
        for driver in KNOWN {
            assert!(driver.zero_copy.is_none_or(|since| since >= driver.native), "{driver:?}");
        }
    }

    #[test]
    fn a_driver_is_found_by_its_whole_name() {
        assert!(known("ice").is_some_and(|driver| driver.zero_copy.is_some()));
        assert_eq!(known("ic"), None);
    }
}
