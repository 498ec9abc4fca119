//! TCP for tasks of the own runtime: packets from one small daemon, sockets from another.

use std::future::Future;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use crate::common::{Folder, Served};
use crate::streams::{Daemon, LOCAL_PORTS};
use attach::AttachListener;
use calisto_client::Nanos;
use calisto_client::rt::{self, Net, Runtime, TcpStream};
use calisto_client::sockets::Session;
use sys::poll;

/// Runs a main task on one worker; what it gives back.
fn run<M, F>(test: &str, session: &Session, main: M) -> F::Output
where
    M: Fn(Runtime, Session) -> F + Send + Sync + 'static,
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let folder = Folder::new(&format!("rt-tcp-{test}"));
    let listener = AttachListener::bind(&folder.socket(), 0o600).expect("the folder is ours");
    let (options, session) = (folder.options(), session.clone());
    let program = std::thread::spawn(move || {
        rt::run(options, move |rt| {
            let main = main(rt.clone(), session.clone());
            async move {
                let limited = rt::timeout(Nanos::from_secs(30), main).await;
                rt.shutdown();
                limited.expect("it does not hang")
            }
        })
    });
    assert!(poll::wait_readable(listener.as_fd(), Nanos::from_secs(10)), "it does not come");
    let peer = listener.accept().expect("descriptors are left").expect("one has connected");
    let _served = Served::welcome(peer).expect("it asks");
    let ended = program.join().expect("it does not panic").expect("it was attached");
    ended.results.into_iter().next().expect("one worker").expect("it has ended by itself")
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

async fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 3000];
    while let count @ 1.. = stream.read(&mut bytes).await.expect("the peer is honest") {
        stream.write_all(&bytes[..count]).await.expect("the peer reads");
    }
    stream.shutdown().expect("it is connected");
}

#[test]
fn tasks_echo_over_connections_of_both_kinds_while_they_sleep_in_between() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    run("echo", &session, async |rt, session| {
        let net = Net::new(&session).expect("there is a poller");
        for port in [0, LOCAL_PORTS.start + 30] {
            let listener = net.listen(address(port)).expect("the port is free");
            let to = listener.local_addr();
            let acceptor =
                rt.spawn_local(async move { listener.accept().await.expect("it has connected").0 });
            let mut stream = net.connect(to).await.expect("it listens");
            stream.set_nodelay(true);
            let accepted = acceptor.await.expect("it does not panic");
            assert_eq!(
                accepted.peer_addr().expect("it is connected"),
                stream.local_addr().expect("it is connected"),
            );
            let server = rt.spawn_local(echo(accepted));
            // Not more than the rings hold: it is written before anything is read.
            for length in [1, 100, 6000] {
                let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
                let mut answer = vec![0; bytes.len()];
                stream.write_all(&bytes).await.expect("the other reads");
                stream.read_exact(&mut answer).await.expect("the other answers");
                assert!(answer == bytes);
                rt::sleep(Nanos::from_millis(2)).await;
            }
            stream.shutdown().expect("it is connected");
            assert_eq!(stream.read(&mut [0]).await.expect("the end"), 0);
            server.await.expect("it does not panic");
        }
        let refused = net.connect(address(2)).await.expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let kernel = net.connect(address(0)).await.expect_err("only the kernel can");
        assert_eq!(kernel.kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn a_dead_daemon_of_sockets_ends_what_waits_for_them_and_not_the_runtime() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    let daemon = std::sync::Mutex::new(Some(daemon));
    run("dead", &session, move |rt, session| {
        let mut daemon = daemon.lock().expect("nobody panics with it").take();
        async move {
            let net = Net::new(&session).expect("there is a poller");
            let listener = net.listen(address(0)).expect("the port is free");
            let to = listener.local_addr();
            let reader = rt.spawn_local(async move {
                let mut stream = net.connect(to).await.expect("it listens");
                stream.read(&mut [0]).await
            });
            let (_accepted, _) = listener.accept().await.expect("it has connected");
            rt::sleep(Nanos::from_millis(2)).await;
            daemon.as_mut().expect("it was there").kill();
            let error = reader.await.expect("it does not panic").expect_err("the daemon is gone");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
    });
}
