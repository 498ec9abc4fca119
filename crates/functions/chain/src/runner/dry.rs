//! What a start of the chain would refuse, without a port, a thread or a socket.

use std::path::Path;

use super::launch;
use super::make::{Parts, all_stages};
use crate::error::ChainError;
use crate::file::{ChainFile, FunctionPart};
use crate::filter::wanted::has;
use crate::health::Health;
use crate::ports::Ports;

/// Makes what can be made of `file` on any machine, and throws it away: the slices' filters, the
/// tunnels, and the functions of one slice, which are the same in the others. ESP's library is
/// asked for only where the chain [is to run](has_libraries).
pub(crate) fn try_out(file: &ChainFile, folder: &Path, ports: &Ports) -> Result<(), ChainError> {
    for (number, part) in file.slices.iter().enumerate() {
        launch::spec_of(file, number, part).check()?;
    }
    let gateway = launch::gateway(file, folder)?;
    let parts = Parts {
        folder,
        ports,
        rib: None,
        gateway: gateway.as_ref(),
        health: &Health::of(file, &Health::default()),
        follows: None,
    };
    let one = ChainFile { slices: file.slices.iter().take(1).cloned().collect(), ..file.clone() };
    let is_esp = |index: usize| matches!(file.functions.get(index), Some(FunctionPart::Esp(_)));
    all_stages(&parts, &one, &is_esp).map(drop)
}

/// Whether this machine has what functions of the chain load when they begin.
pub(crate) fn has_libraries(file: &ChainFile) -> Result<(), ChainError> {
    if !has(file, "esp") {
        return Ok(());
    }
    let failed = |why| ChainError::Function { kind: "esp", why };
    crypto::IpsecMb::open().map(drop).map_err(|error| failed(error.to_string()))
}
