//! QUIC: datagrams with ECN's marks, own addresses and segments beside them.

use whole::kernel_udp;

use crate::ground::{At, Ground, certificate};

const PORT: u16 = 4433;

/// A server of the body, and a client that takes it.
fn ngtcp2(server_at: At, client_at: At) {
    let ground = Ground::new();
    let host = ground.host(server_at);
    let port = PORT.to_string();
    let [certificate, key] = certificate(ground.folder(), &host);
    let counts = || {
        let here = ground.accelerated().here();
        ["InDatagrams", "OutDatagrams"].map(|name| kernel_udp(here, name))
    };
    let before = counts();
    let words = ["/usr/sbin/gtlsserver", "-q", "-d", "www", &host, &port, &key, &certificate];
    let server = ground.serve(server_at, PORT, &words);
    let folder = ground.path("");
    let download = format!("--download={folder}");
    let uri = format!("https://{host}:{PORT}/body");
    let words = ["gtlsclient", "-q", "--exit-on-all-streams-close", &download, &host, &port, &uri];
    ground.run(client_at, &words).succeed();
    let came = std::fs::read_to_string(ground.path("body")).expect("it was downloaded");
    assert!(came == ground.body(), "{} bytes of {}", came.len(), ground.body().len());
    assert_eq!(ground.accelerated().fallbacks(), [], "sockets were left to the kernel");
    let [received, sent] = counts();
    assert_eq!(received, before[0], "datagrams of the kernel");
    // The first long calls of segments find a short ring, go by the kernel and have the ring grow:
    // a few of the thousand that the body takes.
    assert!(sent - before[1] <= 16, "{} datagrams of the kernel", sent - before[1]);
    ground.end([server]);
}

#[test]
fn a_server_of_quic_is_accelerated() {
    ngtcp2(At::Here, At::There);
}

#[test]
fn a_client_of_quic_is_accelerated() {
    ngtcp2(At::There, At::Here);
}
