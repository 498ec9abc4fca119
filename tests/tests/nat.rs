//! NAT44 between two hosts of Linux, with the programs that people run, over wires as they are by
//! default: the kernels leave checksums open.

use std::fs::Permissions;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use sys::ethtool::{self, Offload};
use whole::{Host, Intruder, Line, NfRun, Program, Transfer, four, install, run, wait_for};

/// The address that those behind the NAT share, on the wire between middle and east.
const SHARED: &str = "10.90.1.77";

/// West is inside, and all that east knows is the shared address.
fn two_links() -> Line {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(1).ip(&format!("addr add {SHARED}/24 dev east"));
    for (host, interface) in [(0, "east"), (2, "west")] {
        let open = || ethtool::set(interface, Offload::TxChecksum, true);
        line.host(host).enter(open).expect("a veth leaves checksums open");
    }
    line
}

fn nat(settings: &str) -> String {
    format!(
        "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"nat\"\n\
         outside = [\"east\"]\naddresses = [\"{SHARED}\"]\n{settings}[[function]]\nkind = \"router\"\n"
    )
}

fn shared() -> IpAddr {
    SHARED.parse().expect("an address")
}

fn server(host: &Host) -> Program {
    let mut server = host.command("python3");
    server.args(["-m", "http.server", "8000", "--bind", "0.0.0.0", "--directory", "/etc/ssl"]);
    Program::spawn(&mut server)
}

fn fetched(from: &Host, address: IpAddr) -> bool {
    let mut command = from.command("curl");
    let url = format!("http://{}/", SocketAddr::new(address, 8000));
    let words = ["--silent", "--fail", "--max-time", "2", "--noproxy", "*", &url];
    let (status, out, _) = run(command.args(words));
    status.success() && !out.is_empty()
}

fn wait_until_fetched(from: &Host, address: IpAddr) {
    wait_for("an answer", || {
        fetched(from, address).then_some(()).ok_or_else(|| "none yet".to_owned())
    });
}

fn socket(host: &Host) -> UdpSocket {
    let socket = host.enter(|| UdpSocket::bind("0.0.0.0:0")).expect("a port is free");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("it has one");
    socket
}

/// Says something to `there` until it is heard; who seems to have said it.
fn heard(from: &UdpSocket, to: &UdpSocket, there: SocketAddr, what: &[u8]) -> SocketAddr {
    wait_for("a datagram", || {
        from.send_to(what, there).expect("there is a way");
        let mut buffer = vec![0; what.len() + 1];
        match to.recv_from(&mut buffer) {
            Ok((bytes, who)) if buffer[..bytes] == *what => Ok(who),
            other => Err(format!("{other:?}")),
        }
    })
}

fn address_of(socket: &UdpSocket, host: IpAddr) -> SocketAddr {
    SocketAddr::new(host, socket.local_addr().expect("it is bound").port())
}

#[test]
fn behind_a_nat_real_programs_reach_out_by_its_address_and_nobody_reaches_in() {
    install(&["curl=curl", "ping=iputils-ping", "traceroute=traceroute"]);
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let chain = NfRun::start(middle, &nat(""), &[]);
    let _servers = [server(west), server(east)];
    let outside = four(1, 2);
    wait_until_fetched(west, outside);
    assert!(!fetched(east, shared()), "nobody is meant");
    // Whole and unharmed, both ways, and by the shared address.
    Transfer::start(west, east, outside, 4 << 20).finish();
    let listener = east.enter(|| TcpListener::bind((outside, 0))).expect("it is its address");
    let at = listener.local_addr().expect("it listens");
    let _client = west
        .enter(|| TcpStream::connect_timeout(&at, Duration::from_secs(20)))
        .expect("there is a way");
    assert_eq!(listener.accept().expect("it is there").1.ip(), shared());
    let words = ["-c", "2", "-i", "0.2", "-W", "2", &outside.to_string()];
    let (status, out, _) = run(west.command("ping").args(words));
    assert!(status.success() && out.contains(" 0% packet loss"), "{out} {:?}", chain.figures());
    // Questions and answers, as DNS has them, and some that come in pieces.
    let (asker, answerer) = (socket(west), socket(east));
    for bytes in [40, 1400, 4000] {
        let seen = heard(&asker, &answerer, address_of(&answerer, outside), &vec![7; bytes]);
        assert_eq!(seen.ip(), shared());
        let back = heard(&answerer, &asker, seen, &vec![8; bytes]);
        assert_eq!(back, address_of(&answerer, outside));
    }
    for kind in ["-U", "-I", "-T"] {
        let words = [kind, "-n", "-q", "1", "-w", "3", "-m", "4", &outside.to_string()];
        let (status, out, said) = run(west.command("traceroute").args(words));
        let hops: Vec<&str> =
            out.lines().skip(1).filter_map(|hop| hop.split_whitespace().nth(1)).collect();
        assert!(status.success(), "{said}");
        assert_eq!(hops, ["10.90.0.2", "10.90.1.2"], "{kind} {out} {:?}", chain.figures());
    }
    assert!(chain.count("nat", "errors") > 0);
    for counter in ["invalid_tcp", "invalid_window", "invalid_fragment", "unreadable"] {
        assert_eq!(chain.count("nat", counter), 0, "{counter}: {:?}", chain.figures());
    }
}

#[test]
fn an_error_from_outside_reaches_the_socket_inside_that_it_is_about() {
    let line = two_links();
    let [west, middle, _] = [0, 1, 2].map(|number| line.host(number));
    let chain = NfRun::start(middle, &nat(""), &[]);
    let asker = socket(west);
    asker.connect((four(1, 2), 9)).expect("there is a way");
    wait_for("an error", || {
        let _ = asker.send(b"calisto");
        match asker.recv(&mut [0; 8]) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert!(chain.count("nat", "errors") >= 1, "{:?}", chain.figures());
}

#[test]
fn two_hosts_inside_talk_by_their_outer_ends_and_one_end_is_the_same_for_all() {
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let text = nat("filtering = \"endpoint\"\n");
    let chain = NfRun::start(middle, &text, &[]);
    let [one, other] = [socket(west), socket(west)];
    let [first, second] = [socket(east), socket(east)];
    let seen = heard(&one, &first, address_of(&first, four(1, 2)), b"to the first");
    let again = heard(&one, &second, address_of(&second, four(1, 2)), b"to the second");
    assert_eq!((seen, seen.ip()), (again, shared()), "whoever the other end is");
    let stranger = socket(east);
    heard(&stranger, &one, seen, b"from somebody else");
    let hairpin = heard(&other, &one, seen, b"from inside");
    assert_eq!(hairpin.ip(), shared());
    assert_eq!(heard(&one, &other, hairpin, b"and back"), seen);
    // The next ones need the other end to be spoken to, and the connection that is there goes on.
    chain.reload(&nat(""), &[]).expect("it is right");
    assert_eq!(heard(&one, &first, address_of(&first, four(1, 2)), b"on"), seen);
    let filtered = chain.count("nat", "filtered");
    socket(east).send_to(b"calisto", seen).expect("there is a way");
    chain.wait_for_count("nat", "filtered", |count| count > filtered);
}

#[test]
fn floods_from_inside_and_outside_end_no_connection_and_keep_nobody_from_the_next() {
    install(&["curl=curl"]);
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    // Those that flood say that they are hosts inside, too.
    let settings =
        "connections = 512\nports_each = 64\ninside = [\"10.90.0.0/24\", \"198.18.0.0/15\"]\n";
    let chain = NfRun::start(middle, &nat(settings), &[]);
    let _server = server(east);
    wait_until_fetched(west, four(1, 2));
    let transfer = Transfer::start(west, east, four(1, 2), 8 << 20);
    let (IpAddr::V4(outside), IpAddr::V4(shared)) = (four(1, 2), shared()) else {
        unreachable!("both are of version 4")
    };
    Intruder::on(west).flood(SocketAddrV4::new(outside, 8000), 6000);
    Intruder::on(west).flood(SocketAddrV4::new(outside, 8001), 1000);
    Intruder::on(east).flood(SocketAddrV4::new(shared, 2000), 3000);
    chain.wait_for_count("nat", "opened", |count| count >= 1000);
    transfer.finish();
    wait_until_fetched(west, four(1, 2));
    assert!(chain.count("nat", "connections") <= 512);
}

/// What `program` with these words prints on `host`, once it succeeds.
fn answer(host: &Host, program: &str, words: &[&str]) -> String {
    wait_for("an answer", || {
        let (status, out, said) = run(host.command(program).args(words));
        let is_there = status.success() && !out.is_empty();
        is_there.then_some(out).ok_or(said)
    })
}

/// Files that an FTP server hands out, and its settings; gone with this value.
struct Files(PathBuf);

impl Files {
    fn new(content: &[u8]) -> Self {
        let folder = std::env::temp_dir().join(format!("calisto-ftp-{}", std::process::id()));
        let root = folder.join("root");
        std::fs::create_dir_all(&root).expect("the temporary folder is ours");
        for folder in [&folder, &root] {
            let open = Permissions::from_mode(0o755);
            std::fs::set_permissions(folder, open).expect("it is ours");
        }
        std::fs::write(root.join("file"), content).expect("the folder is ours");
        let root = root.display();
        let settings = format!(
            "listen=YES\nlisten_port=2121\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\n\
             no_anon_password=YES\nseccomp_sandbox=NO\nanon_root={root}\nsecure_chroot_dir={root}\n"
        );
        std::fs::write(folder.join("settings"), settings).expect("the folder is ours");
        Self(folder)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn dns_passive_ftp_and_iperf3_both_ways_go_out_by_a_nat() {
    install(&[
        "curl=curl",
        "dig=bind9-dnsutils",
        "dnsmasq=dnsmasq-base",
        "iperf3=iperf3",
        "vsftpd=vsftpd",
    ]);
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let chain = NfRun::start(middle, &nat(""), &[]);
    let there = four(1, 2).to_string();

    let mut names = east.command("dnsmasq");
    names.args(["--no-daemon", "--no-resolv", "--no-hosts", "--conf-file=/dev/null"]);
    names.args(["--user=root", "--pid-file=", "--address=/calisto.test/192.0.2.77"]);
    let _names = Program::spawn(&mut names);
    let at = format!("@{there}");
    for protocol in ["+notcp", "+tcp"] {
        let words = [&at, protocol, "+short", "+tries=1", "+time=2", "calisto.test"];
        assert_eq!(answer(west, "dig", &words).trim(), "192.0.2.77", "{protocol}");
    }

    let text = "what a server of files has\n".repeat(20_000);
    let files = Files::new(text.as_bytes());
    let _server = Program::spawn(east.command("vsftpd").arg(files.0.join("settings")));
    let url = format!("ftp://{there}:2121/file");
    for passive in ["--ftp-skip-pasv-ip", "--disable-epsv"] {
        let words = ["--silent", "--fail", "--max-time", "10", "--noproxy", "*", passive, &url];
        assert!(answer(west, "curl", &words) == text, "{passive}");
    }

    let _server = Program::spawn(east.command("iperf3").args(["-s", "-p", "5211"]));
    for way in [&[][..], &["-R"], &["-u", "-b", "20M"]] {
        let mut words = vec!["-c", &there, "-p", "5211", "-n", "2M", "-J"];
        words.extend(way);
        let out = answer(west, "iperf3", &words);
        assert!(!out.contains("\"error\""), "{way:?}: {out}");
    }
    for counter in ["invalid_tcp", "invalid_window", "invalid_fragment", "unreadable"] {
        assert_eq!(chain.count("nat", counter), 0, "{counter}: {:?}", chain.figures());
    }
}
