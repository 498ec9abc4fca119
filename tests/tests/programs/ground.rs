//! What every row has: a body of text, servers with or without Calisto, and clients that take the
//! body from them, over the wire and within the host.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::Side;
use whole::{Accelerated, Program, Random, wait_for};

use crate::install;

/// Which end a program runs at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Beside the daemon, under `calisto run`.
    Here,
    /// At the other end of the wire, on Linux.
    There,
}

/// Server and client, in the three ways in which one of them is accelerated.
pub(crate) const WAYS: [(At, At); 3] =
    [(At::Here, At::There), (At::There, At::Here), (At::Here, At::Here)];

/// A daemon, and a folder `www` with a file `body`.
pub(crate) struct Ground {
    accelerated: Accelerated,
    body: String,
}

impl Ground {
    /// Lines of the body: together a MiB, more than any buffer between two programs holds.
    const LINES: u32 = 1 << 14;

    pub(crate) fn new() -> Self {
        install();
        let accelerated = Accelerated::start();
        let mut random = Random::new(0x0ca1_1570);
        let mut line = || (0..4).map(|_| format!("{:016x}", random.any())).collect::<String>();
        let body: String = (0..Self::LINES).map(|_| line() + "\n").collect();
        let ground = Self { accelerated, body };
        ground.write("www/body", &ground.body);
        ground
    }

    pub(crate) fn accelerated(&self) -> &Accelerated {
        &self.accelerated
    }

    /// What every client is to print.
    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    pub(crate) fn folder(&self) -> &Path {
        self.accelerated.daemon().folder()
    }

    /// The path of a file in the folder, which is where all programs run.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder().join(name).display().to_string()
    }

    /// Writes a file of the folder; its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder().join(name);
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("it is ours");
        std::fs::write(&path, text).expect("the folder is ours");
        path.display().to_string()
    }

    fn side(&self, at: At) -> &Side {
        match at {
            At::Here => self.accelerated.here(),
            At::There => self.accelerated.there(),
        }
    }

    pub(crate) fn host(&self, at: At) -> String {
        self.side(at).ipv4().to_string()
    }

    pub(crate) fn run(&self, at: At, words: &[&str]) -> Program {
        match at {
            At::Here => self.accelerated.run(words),
            At::There => self.accelerated.run_there(words),
        }
    }

    /// Starts a server and waits until it listens to `port`; here that is a listener of Calisto.
    pub(crate) fn serve(&self, at: At, port: u16, words: &[&str]) -> Program {
        let mut server = self.run(at, words);
        wait_for(&format!("the listener of {words:?}"), || {
            let listens = match at {
                At::Here => self.calisto_listens(port),
                At::There => self.kernel_listens(port),
            };
            listens.then_some(()).ok_or_else(|| {
                let ended = server.ended();
                assert!(ended.is_none(), "{words:?} has ended: {ended:?} {}", server.so_far());
                server.so_far()
            })
        });
        server
    }

    fn calisto_listens(&self, port: u16) -> bool {
        let end = format!(":{port}");
        let sockets = self.accelerated.sockets();
        sockets.iter().any(|row| row.remote.is_none() && row.local.ends_with(&end))
    }

    /// As /proc tells of the other end, without a connection that the server would see.
    fn kernel_listens(&self, port: u16) -> bool {
        const LISTEN: &str = "0A";
        const UNCONNECTED: &str = "07";
        let read = |name: &str| {
            // Of this thread, because that alone is at the other end.
            std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
        };
        let text = self.side(At::There).enter(|| ["tcp", "tcp6", "udp", "udp6"].map(read));
        let text = text.expect("the namespace is there").concat();
        let end = format!(":{port:04X}");
        text.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (local, state) = (words.get(1), words.get(3));
            local.is_some_and(|local| local.ends_with(&end))
                && state.is_some_and(|state| [LISTEN, UNCONNECTED].contains(state))
        })
    }

    /// Runs a client which prints the body, and nothing else, that `server` has: the right bytes
    /// came, and they went the way that they should.
    pub(crate) fn take(&self, server: At, client: At, words: &[&str]) {
        let before = self.accelerated.carried();
        let out = self.run(client, words).succeed();
        let is_it = out.trim_end() == self.body.trim_end();
        assert!(is_it, "{words:?} had {} bytes, and others: {:.200}", out.len(), out);
        self.was_carried(server, client, before, self.body.len() as u64);
    }

    /// Asserts that since `before` at least `bytes` went from the server to the client over the
    /// wire, or none within the host, and that the kernel had no part in it.
    pub(crate) fn was_carried(&self, server: At, client: At, before: whole::Carried, bytes: u64) {
        self.was_carried_beside(server, client, before, bytes);
        self.accelerated.all_was_accelerated();
    }

    /// The same of connections, whatever the program has beside them.
    pub(crate) fn was_carried_beside(
        &self,
        server: At,
        client: At,
        before: whole::Carried,
        bytes: u64,
    ) {
        let accelerated = &self.accelerated;
        wait_for("the bytes on the way of Calisto", || {
            let now = accelerated.carried();
            let sent = now.sent - before.sent;
            let received = now.received - before.received;
            let is_right = match (server, client) {
                (At::Here, At::Here) => (sent, received) == (0, 0),
                (At::Here, At::There) => sent >= bytes,
                (At::There, At::Here) => received >= bytes,
                (At::There, At::There) => panic!("nothing is accelerated there"),
            };
            is_right.then_some(()).ok_or_else(|| format!("{sent} sent, {received} received"))
        });
        accelerated.kernel_has_no_connections();
    }

    /// A client of a server here: over the wire, and within the host.
    pub(crate) fn take_both_ways(&self, words: &[&str]) {
        self.take(At::Here, At::There, words);
        self.take(At::Here, At::Here, words);
    }

    /// The same by curl.
    pub(crate) fn curl_both_ways(&self, url: &str, options: &[&str]) {
        let words = ["curl", "-sS", "--fail", "--max-time", "60", url];
        let words: Vec<&str> = words.into_iter().chain(options.iter().copied()).collect();
        self.take_both_ways(&words);
    }

    /// `http://HERE:PORT/body`.
    pub(crate) fn url(&self, port: u16) -> String {
        format!("http://{}:{port}/body", self.host(At::Here))
    }

    /// A server and a client of a kind, each in its turn accelerated or not.
    pub(crate) fn three_ways(
        &self,
        port: u16,
        server: impl Fn(&str) -> Vec<String>,
        client: impl Fn(&str) -> Vec<String>,
    ) {
        for (server_at, client_at) in WAYS {
            let host = self.host(server_at);
            let (serving, taking) = (server(&host), client(&host));
            let running = self.serve(server_at, port, &strs(&serving));
            self.take(server_at, client_at, &strs(&taking));
            self.end([running]);
        }
    }

    /// Ends servers in order, and sees that nothing of them stays.
    pub(crate) fn end(&self, servers: impl IntoIterator<Item = Program>) {
        servers.into_iter().for_each(|server| drop(server.stop()));
        self.accelerated.nothing_is_left();
    }
}

/// A certificate of `host`, and its key.
pub(crate) fn certificate(folder: &Path, host: &str) -> [String; 2] {
    let path = |name: &str| folder.join(name).display().to_string();
    let (key, certificate) = (path("key.pem"), path("certificate.pem"));
    let _: Ipv4Addr = host.parse().expect("an address");
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-nodes", "-days", "2", "-subj", "/CN=calisto-test", "-addext"]);
    openssl.arg(format!("subjectAltName=IP:{host}"));
    openssl.args(["-keyout", &key, "-out", &certificate]);
    let output = openssl.output().expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    [certificate, key]
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Words of a command, owned.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
