//! A program in C that serves TCP over the library, and the library's calls used wrongly.

use std::ffi::{CStr, CString};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};

use crate::streams::Daemon;
use calisto::*;
use calisto_client::sockets::TcpStream;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn compile(daemon: &Daemon) -> PathBuf {
    let program = daemon.socket_path().with_file_name("tcp_echo");
    let libraries = libraries();
    let compiler = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"])
        .arg("-I")
        .arg(root().join("crates/programs/capi/include"))
        .arg(root().join("examples/tcp_echo.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&libraries)
        .args(["-l:libcalisto.so", "-lpthread"])
        .output()
        .expect("a C compiler is installed as `cc`");
    let said = String::from_utf8_lossy(&compiler.stderr);
    assert!(compiler.status.success(), "{said}");
    program
}

/// Where cargo has put the libraries that were built for this test.
fn libraries() -> PathBuf {
    let binary = std::env::current_exe().expect("proc is mounted");
    binary.parent().expect("it lies in a folder").to_owned()
}

#[test]
fn a_c_program_echoes_over_tcp_and_goes_on_with_the_kernel_when_the_daemon_dies() {
    let mut daemon = Daemon::start();
    let program = compile(&daemon);
    let mut child = Command::new(program)
        .arg("127.0.0.1:0")
        .env("CALISTO_APPS", daemon.socket_path())
        .env("LD_LIBRARY_PATH", libraries())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let mut said = String::new();
    let stdout = child.stdout.take().expect("it was asked for");
    BufReader::new(stdout).read_line(&mut said).expect("it says where it listens");
    let address = said.trim().strip_prefix("listens on ").expect("it says where it listens");
    let address = address.parse().expect("an address");

    let session = daemon.attach();
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let mut stream = TcpStream::connect(&session, address).expect("it listens");
    assert!(stream.is_accelerated());
    let mut writer = stream.try_clone().expect("nothing is needed");
    std::thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&bytes).expect("it reads"));
        let mut answer = vec![0; bytes.len()];
        stream.read_exact(&mut answer).expect("it answers");
        assert!(answer == bytes);
    });
    daemon.kill();
    let mut by_kernel = std::net::TcpStream::connect(address).expect("it listens");
    by_kernel.write_all(b"still there").expect("there is room");
    let mut answer = [0; 11];
    by_kernel.read_exact(&mut answer).expect("it answers");
    assert_eq!(&answer, b"still there");
    let mut said = String::new();
    let stderr = child.stderr.take().expect("it was asked for");
    BufReader::new(stderr).read_line(&mut said).expect("it says what has happened");
    child.kill().and_then(|()| child.wait()).expect("it is ours");
    assert!(said.contains("Connection reset"), "{said}");
}

fn error() -> String {
    // SAFETY: null is allowed, and the text is this thread's until the next call.
    let text = unsafe { CStr::from_ptr(calisto_error(null())) };
    text.to_str().expect("it was a string").to_owned()
}

#[test]
fn nulls_nonsense_and_closed_ends_are_errors_with_a_sentence() {
    let daemon = Daemon::start();
    let path = CString::new(daemon.socket_path().to_str().expect("a text")).expect("no zero");
    let mut session = null_mut();
    let mut listener = null_mut();
    let mut stream = null_mut();
    let mut udp = null_mut();
    let mut bytes = [0_u8; 64];
    let room = bytes.as_mut_ptr();
    // SAFETY: pointers are null or good for what is said of them, as the calls require; closed
    // objects are used no more.
    unsafe {
        assert_eq!(calisto_session_open(path.as_ptr(), null(), &mut session), CALISTO_INVALID);
        let nowhere = c"/nowhere/at/all".as_ptr();
        let name = c"test".as_ptr();
        assert_eq!(calisto_session_open(nowhere, name, &mut session), CALISTO_NO_DAEMON);
        assert!(session.is_null() && error().contains("calisto up"), "{}", error());
        assert_eq!(calisto_session_open(path.as_ptr(), name, null_mut()), CALISTO_INVALID);
        assert_eq!(calisto_session_open(path.as_ptr(), name, &mut session), 0);
        for wrong in [c"", c"7", c"10.0.0.1", c"host:7", c"10.0.0.1:70000"] {
            assert_eq!(calisto_tcp_listen(session, wrong.as_ptr(), &mut listener), CALISTO_INVALID);
        }
        let any = c"127.0.0.1:0".as_ptr();
        assert_eq!(calisto_tcp_listen(null(), any, &mut listener), CALISTO_INVALID);
        assert_eq!(calisto_tcp_accept(null(), &mut stream), CALISTO_INVALID);
        let nobody = c"127.0.0.1:2".as_ptr();
        let refused = calisto_tcp_connect(session, nobody, CALISTO_FOREVER, &mut stream);
        assert_eq!((refused, calisto_errno(), stream), (CALISTO_SYSTEM, 111, null_mut()));
        let silent = c"127.0.0.1:1".as_ptr();
        let late = calisto_tcp_connect(session, silent, 1_000_000, &mut stream);
        assert_eq!((late, calisto_errno()), (CALISTO_SYSTEM, 110));

        assert_eq!(calisto_tcp_listen(session, any, &mut listener), 0);
        assert_eq!(calisto_tcp_listener_address(listener, room.cast(), 5), CALISTO_INVALID);
        let length = calisto_tcp_listener_address(listener, room.cast(), 64);
        assert_eq!(bytes[length as usize], 0);
        let mut accepted = null_mut();
        let to = bytes.as_ptr().cast();
        assert_eq!(calisto_tcp_connect(session, to, CALISTO_FOREVER, &mut stream), 0);
        assert_eq!(calisto_tcp_accept(listener, &mut accepted), 0);
        assert_eq!(calisto_tcp_is_accelerated(accepted), 1);
        assert!(calisto_tcp_peer_address(accepted, room.cast(), 64) > 0);
        assert_eq!(calisto_tcp_set_nodelay(stream, 1), 0);
        assert_eq!(calisto_tcp_read(stream, null_mut(), 5), CALISTO_INVALID);
        assert_eq!(calisto_tcp_write(stream, null(), 5), CALISTO_INVALID);
        assert_eq!(calisto_tcp_set_timeouts(stream, 1_000_000, CALISTO_FOREVER), 0);
        assert_eq!(calisto_tcp_read(stream, room.cast(), 64), CALISTO_SYSTEM);
        assert_eq!(calisto_errno(), 11);
        assert_eq!(calisto_tcp_write(stream, b"bytes".as_ptr().cast(), 5), 5);
        assert_eq!(calisto_tcp_shutdown(stream), 0);
        assert_eq!(calisto_tcp_read(accepted, room.cast(), 64), 5);
        assert_eq!(calisto_tcp_read(accepted, room.cast(), 64), 0);
        assert_eq!(calisto_tcp_write(stream, b"more".as_ptr().cast(), 4), CALISTO_SYSTEM);
        assert_eq!(calisto_errno(), 32);
        calisto_tcp_close(stream);
        calisto_tcp_close(accepted);
        calisto_tcp_close(null_mut());
        calisto_tcp_unlisten(listener);

        assert_eq!(calisto_udp_bind(session, any, &mut udp), 0);
        let length = calisto_udp_address(udp, room.cast(), 64);
        let own = CString::new(&bytes[..length as usize]).expect("no zero");
        assert_eq!(calisto_udp_send(udp, b"hello".as_ptr().cast(), 5, own.as_ptr()), 5);
        let mut peer = [0; 64];
        assert_eq!(calisto_udp_receive(udp, room.cast(), 64, peer.as_mut_ptr(), 64), 5);
        assert_eq!(CStr::from_ptr(peer.as_ptr()), own.as_c_str());
        assert_eq!(calisto_udp_set_timeout(udp, 1_000_000), 0);
        assert_eq!(calisto_udp_receive(udp, room.cast(), 64, null_mut(), 0), CALISTO_SYSTEM);
        calisto_udp_close(udp);
        calisto_session_close(session);
        calisto_session_close(null_mut());
    }
}
