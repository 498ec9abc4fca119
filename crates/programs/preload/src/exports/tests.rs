//! The table against libc, and against what programs are known to call.

use std::collections::BTreeSet;
use std::ffi::CString;

use super::NAMES;

/// What servers and clients import that could be told about a socket, by the binaries of redis,
/// memcached, nginx, wrk, iperf3, haproxy, node, python, java, lighttpd, curl, postgres, sipp and
/// sockperf.
const IMPORTED: &str = "socket bind listen accept accept4 getsockname getpeername getsockopt \
    setsockopt connect shutdown close read write readv writev recv send recvfrom sendto recvmsg \
    sendmsg fcntl fcntl64 ioctl poll select epoll_create epoll_create1 epoll_ctl epoll_wait \
    epoll_pwait dup dup2 dup3 sendfile sendfile64 splice recvmmsg sendmmsg __poll_chk __read_chk \
    __recv_chk __recvfrom_chk __ppoll_chk syscall posix_spawn posix_spawnp close_range fexecve \
    execve execvp system popen fdopen ppoll pselect closefrom epoll_pwait2 preadv2 pwritev2 \
    sigaction signal __close __connect __send __read __write __poll __select __fcntl __dup2 \
    __sigaction";

#[test]
fn every_call_that_programs_import_has_a_row() {
    let rows: BTreeSet<&str> = NAMES.iter().copied().collect();
    let missing: Vec<&str> =
        IMPORTED.split_whitespace().filter(|name| !rows.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_name_has_two_rows() {
    let rows: BTreeSet<&str> = NAMES.iter().copied().collect();
    assert_eq!(rows.len(), NAMES.len());
}

#[test]
fn libc_has_every_function_but_its_own_internal_names() {
    for name in NAMES {
        let symbol = CString::new(*name).expect("a name has no zero byte");
        // SAFETY: a text of ours.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
        // glibc exports it to its own libraries only; the row costs nothing.
        assert!(!found.is_null() || ["__socket", "__send"].contains(name), "{name}");
    }
}
