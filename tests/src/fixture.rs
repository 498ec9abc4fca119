//! Where a test stands: its namespaces and its project.

use std::path::Path;

use testbed::{Testbed, TestbedConfig};

/// Two namespaces with a veth between them.
///
/// # Panics
/// Without root or ip(8): these tests need both, and say so.
pub fn bed() -> Testbed {
    Testbed::new(TestbedConfig::default()).expect("this test needs root and the ip command")
}

/// The folder of the project.
///
/// # Panics
/// Never: this package lies in it.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is in the project")
}
