//! For how many descriptors the kernel has room in this process's table.
//!
//! It grows with the highest number that was ever given out, and is far smaller than the limit
//! (`ulimit -n`) of most programs.

use crate::system::real;

/// What stands before the number in /proc/PID/status, proc_pid_status(5).
const NAME: &[u8] = b"\nFDSize:";

/// Numbers below this one may be open; nothing if the kernel does not say. Takes no memory.
pub(crate) fn room() -> Option<usize> {
    let path = c"/proc/thread-self/status";
    // SAFETY: a text of ours.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    // The name is in the first lines; before it stand a command's name of 64 letters at most, and
    // numbers.
    let mut text = [0_u8; 512];
    // SAFETY: `text` has so much room.
    let count = unsafe { real::read(fd, text.as_mut_ptr().cast(), text.len()) };
    // SAFETY: it was opened here.
    unsafe { real::close(fd) };
    number_in(text.get(..usize::try_from(count).ok()?)?)
}

fn number_in(text: &[u8]) -> Option<usize> {
    let at = text.windows(NAME.len()).position(|part| part == NAME)? + NAME.len();
    let line = text[at..].split(|&byte| byte == b'\n').next()?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_room_for_what_is_open_and_grows() {
        let before = room().expect("proc is mounted");
        assert!(before >= 64);
        let high = before as libc::c_int + 10;
        // SAFETY: plain numbers.
        let made = unsafe { libc::fcntl(2, libc::F_DUPFD, high) };
        if made >= 0 {
            assert!(room().expect("it is there still") > made as usize);
            // SAFETY: it was made here.
            unsafe { libc::close(made) };
        }
    }

    #[test]
    fn a_name_is_no_line_of_the_table() {
        let text = b"Name:\tFDSize:\nUmask:\t0022\nFDSize:\t256\nGroups:\t0\n";
        assert_eq!(number_in(text), Some(256));
        assert_eq!(number_in(b"Name:\tx\n"), None);
    }
}
