//! Bytes that cannot be guessed.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::SysError;

/// `N` bytes from the kernel's generator (getrandom(2)), which has been seeded.
///
/// # Errors
/// The kernel has no such call, or a filter forbids it.
pub fn bytes<const N: usize>() -> Result<[u8; N], SysError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        // A call for more than 256 bytes may be interrupted.
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                return Err(SysError::new("get random bytes", errno, "allow getrandom(2)"));
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_calls_give_the_same_and_every_byte_is_drawn() {
        let drawn: Vec<[u8; 300]> = (0..32).map(|_| bytes().expect("every Linux has it")).collect();
        assert_ne!(drawn[0], drawn[1]);
        for at in 0..300 {
            assert!(drawn.iter().any(|bytes| bytes[at] != 0), "byte {at} is zero in 32 draws");
        }
    }
}
