//! Sockets under tokio, with hyper on top of them.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::streams::{Daemon, LOCAL_PORTS, SILENT_PORT};
use calisto_client::sockets::tokio::{Net, TcpListener, TcpStream};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("descriptors are left");
    let limited = async { tokio::time::timeout(Duration::from_secs(30), test).await };
    runtime.block_on(limited).expect("it does not hang")
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

async fn pair(net: &Net, port: u16) -> (TcpStream, TcpStream) {
    let listener = net.listen(address(port)).expect("the port is free");
    let to = listener.local_addr().expect("it is bound");
    let (client, server) = tokio::join!(net.connect(to), listener.accept());
    (client.expect("it listens"), server.expect("it has connected").0)
}

#[test]
fn a_megabyte_goes_both_ways_at_once_and_arrives_whole() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    run(async {
        let net = Net::new(&session).expect("there is a poller");
        let bytes: Vec<u8> = (0..1 << 20_u32).map(|at| (at % 251) as u8).collect();
        for port in [0, LOCAL_PORTS.start + 20] {
            let (client, server) = pair(&net, port).await;
            assert!(client.is_accelerated() && server.is_accelerated());
            let halves = [tokio::io::split(client), tokio::io::split(server)];
            let mut tasks = Vec::new();
            for (mut reader, mut writer) in halves {
                let (sent, expected) = (bytes.clone(), bytes.clone());
                tasks.push(tokio::spawn(async move {
                    writer.write_all(&sent).await.expect("the other reads");
                    writer.shutdown().await.expect("it is connected");
                }));
                tasks.push(tokio::spawn(async move {
                    let mut read = Vec::new();
                    reader.read_to_end(&mut read).await.expect("the other writes");
                    assert!(read == expected);
                }));
            }
            for task in tasks {
                task.await.expect("it does not panic");
            }
        }
    });
}

async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.expect("descriptors are left");
        tokio::spawn(async move {
            let service = service_fn(async |request: Request<Incoming>| {
                let body = request.into_body().collect().await.expect("it comes whole").to_bytes();
                let mut answer = body.to_vec();
                answer.reverse();
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer))))
            });
            let server = hyper::server::conn::http1::Builder::new();
            server.serve_connection(TokioIo::new(stream), service).await.expect("it is HTTP");
        });
    }
}

#[test]
fn hyper_serves_and_asks_over_our_sockets() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    run(async {
        let net = Net::new(&session).expect("there is a poller");
        let listener = net.listen(address(0)).expect("the port is free");
        let to = listener.local_addr().expect("it is bound");
        tokio::spawn(serve(listener));
        let mut clients = Vec::new();
        for number in 0..4_u8 {
            let net = net.clone();
            clients.push(tokio::spawn(async move {
                let stream = net.connect(to).await.expect("it listens");
                assert!(stream.is_accelerated());
                let io = TokioIo::new(stream);
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(io).await.expect("it is HTTP");
                tokio::spawn(connection);
                for length in [0, 1, 100, 100_000] {
                    let body: Vec<u8> = (0..length).map(|at| (at % 200) as u8 + number).collect();
                    let request = Request::post("/").header("host", "test");
                    let request = request.body(Full::new(Bytes::from(body.clone())));
                    let request = request.expect("it is a request");
                    let response = sender.send_request(request).await.expect("it is answered");
                    let answer = response.into_body().collect().await.expect("whole").to_bytes();
                    assert!(answer.iter().rev().eq(&body), "{length} bytes");
                }
            }));
        }
        for client in clients {
            client.await.expect("it does not panic");
        }
    });
}

#[test]
fn the_kernel_serves_what_comes_from_elsewhere_and_errors_are_told() {
    let daemon = Daemon::start();
    let session = daemon.attach();
    run(async {
        let net = Net::new(&session).expect("there is a poller");
        let listener = net.listen(address(0)).expect("the port is free");
        let to = listener.local_addr().expect("it is bound");
        let (by_kernel, accepted) =
            tokio::join!(tokio::net::TcpStream::connect(to), listener.accept());
        let mut by_kernel = by_kernel.expect("it listens");
        let (mut accepted, peer) = accepted.expect("it has connected");
        assert!(!accepted.is_accelerated());
        assert_eq!(peer, by_kernel.local_addr().expect("it is connected"));
        by_kernel.write_all(b"k").await.expect("there is room");
        assert_eq!(accepted.read_u8().await.expect("it was sent"), b'k');
        let error = net.connect(address(2)).await.expect_err("nobody listens");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        let silent = net.connect(address(SILENT_PORT));
        assert!(tokio::time::timeout(Duration::from_millis(5), silent).await.is_err());
    });
}

#[test]
fn a_dead_daemon_ends_what_waits() {
    let mut daemon = Daemon::start();
    let session = daemon.attach();
    run(async {
        let net = Net::new(&session).expect("there is a poller");
        let (mut client, _server) = pair(&net, 0).await;
        let reader = tokio::spawn(async move { client.read_u8().await });
        tokio::task::yield_now().await;
        daemon.kill();
        let error = reader.await.expect("it does not panic").expect_err("the daemon is gone");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}
