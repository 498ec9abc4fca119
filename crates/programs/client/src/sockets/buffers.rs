//! How large the buffers of sockets within the host are.

use shm::sockets::{SlotOption, SlotWords};

/// Bytes that a reader takes who has not asked for any number: what Linux begins with (tcp_rmem).
const RECEIVE_BUFFER: u64 = 131_072;

/// Bytes that may be written and not read between two sockets of this host. A writer who has not
/// asked for any number has more than the ring.
pub(crate) fn most_between(writer: &SlotWords, reader: &SlotWords) -> u64 {
    let received = match reader.option(SlotOption::ReceiveBuffer) {
        0 => RECEIVE_BUFFER,
        bytes => u64::from(bytes),
    };
    match writer.option(SlotOption::SendBuffer) {
        0 => u64::MAX,
        bytes => u64::from(bytes) + received,
    }
}
