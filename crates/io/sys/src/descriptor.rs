//! The numbers of descriptors: a library's own do not take those that its program counts on.

use std::os::fd::{AsFd, OwnedFd};

/// Numbers from which on a library keeps its descriptors, the best first. Programs ask for certain
/// small numbers (dup2) and count on small ones (select); limits of open files below 1000 are rare.
const FROM: [i32; 3] = [1000, 500, 100];

/// The same open file under a high number; as it was if there is none free.
pub fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    let moved =
        FROM.iter().find_map(|&from| rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), from).ok());
    moved.unwrap_or(fd)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_descriptor_is_moved_up_and_its_old_number_is_free() {
        let event = rustix::event::eventfd(7, rustix::event::EventfdFlags::CLOEXEC);
        let moved = out_of_the_way(event.expect("descriptors are left"));
        assert!(moved.as_raw_fd() >= FROM[2]);
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(&moved, &mut count), Ok(8), "it is the same file");
        assert_eq!(u64::from_ne_bytes(count), 7);
    }
}
