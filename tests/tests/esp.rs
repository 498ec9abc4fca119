//! ESP against strongSwan: its own user-space ESP (kernel-libipsec) at both ends of a wire, keys
//! agreed by its IKE; then we take the place of one end.
//!
//! strongSwan puts ESP into UDP (RFC 3948) there, which we do not speak: the eight bytes are taken
//! off and put on here.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use base::Nanos;
use calisto_nf::esp::{Esp, Gateway, Others, keys};
use calisto_nf::{Function, Verdict, Verdicts};
use crypto::IpsecMb;
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};
use shm::{Batch, FramePool, PoolConfig};
use testbed::{Side, Testbed};
use whole::{Sniffer, run, wait_for};
use wire::build::UdpPacket;

const CHARON: &str = "/usr/lib/ipsec/charon";
const SWANCTL: &str = "/usr/sbin/swanctl";
/// Hosts behind the client's and the server's end.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 81, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 1);
/// Where IKE and its ESP go (RFC 3948).
const NAT_PORT: u16 = 4500;
const PORT: u16 = 9000;

/// A daemon of strongSwan in one namespace; dropped, it is ended.
struct Swan {
    charon: Child,
    folder: PathBuf,
    name: &'static str,
}

impl Swan {
    /// Starts it, with one connection to its peer.
    fn start(
        side: &Side,
        [own, peer]: [&Side; 2],
        hosts: [Ipv4Addr; 2],
        name: &'static str,
        proposal: &str,
        folder: &Path,
    ) -> Self {
        let shown = folder.display();
        let settings = format!(
            "charon {{\n load = random nonce aes sha1 sha2 hmac gcm kdf openssl kernel-libipsec kernel-netlink \
             socket-default vici\n filelog {{\n f {{\n path = {shown}/{name}.log\n default = 1\n chd = 4\n \
             flush_line = yes\n }}\n }}\n plugins {{\n vici {{\n socket = unix://{shown}/{name}.vici\n }}\n }}\n}}\n"
        );
        let [near, far] = hosts;
        let (own_address, peer_address) = (own.ipv4(), peer.ipv4());
        let connection = format!(
            "connections {{\n t {{\n local_addrs = {own_address}\n remote_addrs = {peer_address}\n version = 2\n \
             encap = yes\n proposals = aes128-sha256-modp2048\n local {{\n auth = psk\n id = {own_address}\n }}\n \
             remote {{\n auth = psk\n id = {peer_address}\n }}\n children {{\n c {{\n local_ts = {near}/32\n \
             remote_ts = {far}/32\n esp_proposals = {proposal}\n }}\n }}\n }}\n}}\n\
             secrets {{\n ike-x {{\n secret = \"a secret of this test\"\n }}\n}}\n"
        );
        let path = |ending: &str| folder.join(format!("{name}.{ending}"));
        fs::write(path("conf"), settings).expect("the folder is ours");
        fs::write(path("swan"), connection).expect("the folder is ours");
        // Its files in /run have fixed names, and there are two of them.
        let script = format!("mount -t tmpfs tmpfs /run && exec {CHARON}");
        let mut command = side.command("unshare");
        command.args(["--mount", "bash", "-c", &script]).env("STRONGSWAN_CONF", path("conf"));
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let charon = quiet.spawn().expect("unshare is everywhere");
        let swan = Self { charon, folder: folder.to_owned(), name };
        wait_for("strongSwan to listen", || {
            path("vici").exists().then_some(()).ok_or_else(|| {
                format!("apt-get install strongswan-charon libcharon-extra-plugins: {}", swan.log())
            })
        });
        swan.control(side, &["--load-all", "--file", &path("swan").display().to_string()]);
        swan
    }

    fn control(&self, side: &Side, words: &[&str]) {
        let socket = format!("unix://{}/{}.vici", self.folder.display(), self.name);
        let mut command: Command = side.command(SWANCTL);
        let (status, out, err) = run(command.args(words).args(["--uri", &socket]));
        assert!(status.success(), "apt-get install strongswan-swanctl: {out}{err}{}", self.log());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join(format!("{}.log", self.name))).unwrap_or_default()
    }

    /// Bytes that it has dumped behind a line with this text.
    fn dumped(&self, title: &str) -> String {
        let log = self.log();
        let mut lines = log.lines().skip_while(|line| !line.contains(title));
        let head = lines.next().unwrap_or_default();
        let bytes = head.split(" => ").nth(1).and_then(|rest| rest.split(' ').next());
        let bytes: usize = bytes.and_then(|text| text.parse().ok()).unwrap_or_default();
        let mut digits = String::new();
        for line in lines.take(bytes.div_ceil(16)) {
            let dump = line.split_once(": ").map(|(_, dump)| dump).unwrap_or_default();
            digits.extend(dump.split(' ').take_while(|byte| byte.len() == 2).take(16));
        }
        digits.truncate(bytes * 2);
        digits
    }

    /// The SPI of the line behind this one.
    fn spi(&self, title: &str) -> u32 {
        let log = self.log();
        let line = log.lines().skip_while(|line| !line.contains(title)).nth(1).unwrap_or_default();
        let digits = line.split("SPI 0x").nth(1).and_then(|rest| rest.split(',').next());
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        number.unwrap_or_else(|| panic!("no {title} in {log}"))
    }
}

impl Drop for Swan {
    fn drop(&mut self) {
        // `unshare` and the shell have become it.
        let _ = self.charon.kill();
        let _ = self.charon.wait();
    }
}

/// Our end of the tunnel that strongSwan's client has agreed on.
struct Ours {
    esp: Esp<IpsecMb>,
    pool: FramePool,
}

impl Ours {
    fn in_place_of(swan: &Swan, bed: &Testbed, algorithm: &str) -> Self {
        let auth = |name: &str, title: &str| match swan.dumped(title) {
            digits if digits.is_empty() => String::new(),
            digits => format!("{name} = \"{digits}\"\n"),
        };
        let file = format!(
            "[[tunnel]]\nname = \"swan\"\nlocal = \"{}\"\nremote = \"{}\"\nlocal_networks = [\"{NEAR}/32\"]\n\
             remote_networks = [\"{FAR}/32\"]\nalgorithm = \"{algorithm}\"\nout_spi = {}\nout_key = \"{}\"\n{}\
             in_spi = {}\nin_key = \"{}\"\n{}",
            bed.client().ipv4(),
            bed.server().ipv4(),
            swan.spi("adding outbound ESP SA"),
            swan.dumped("encryption initiator key"),
            auth("out_auth", "integrity initiator key"),
            swan.spi("adding inbound ESP SA"),
            swan.dumped("encryption responder key"),
            auth("in_auth", "integrity responder key"),
        );
        let tunnels =
            keys::parse(&file).unwrap_or_else(|error| panic!("{error} in {}", swan.log()));
        let gateway = Gateway::new(tunnels, Nanos::from_secs(1_700_000_000)).expect("one tunnel");
        let cipher = IpsecMb::open().expect("apt-get install libipsec-mb1");
        let pool = FramePool::new(PoolConfig { frames: 4, chunk_bytes: 4096, numa_node: None });
        Self {
            esp: Esp::new(Arc::new(gateway), Others::Drop, cipher),
            pool: pool.expect("a small pool"),
        }
    }

    /// What a frame becomes.
    fn pass(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut frame = self.pool.take().expect("all are given back");
        assert!(frame.fill(packet), "{} bytes", packet.len());
        let mut batch: Batch = [frame].into_iter().collect();
        let mut verdicts = Verdicts::new();
        self.esp.process(&mut batch, &mut verdicts, Nanos::from_secs(1));
        assert_eq!(verdicts[0], Verdict::Next, "{:?}", self.esp.counts());
        let frame = batch.pop().expect("it is still there");
        let out = frame.bytes().to_vec();
        self.pool.give(frame);
        out
    }
}

/// ESP in UDP as ESP in IP: nothing for IKE, keep-alives and everything else.
fn without_udp(frame: &[u8], to: Ipv4Addr) -> Option<Vec<u8>> {
    let is_ours = frame.get(12..15) == Some(&[8, 0, 0x45])
        && frame.get(30..34) == Some(&to.octets())
        && frame.get(23) == Some(&17)
        && frame.get(36..38) == Some(&NAT_PORT.to_be_bytes());
    let spi = frame.get(42..46)?;
    if !is_ours || spi == [0; 4] {
        return None;
    }
    let mut esp = frame.to_vec();
    esp.drain(34..42);
    seal_header(&mut esp, 50);
    Some(esp)
}

/// The other way round: an IP packet.
fn with_udp(frame: &[u8]) -> Vec<u8> {
    let mut packet = frame.to_vec();
    let [l0, l1] = (frame.len() as u16 - 34 + 8).to_be_bytes();
    let [p0, p1] = NAT_PORT.to_be_bytes();
    // Without a checksum, as RFC 3948 section 2.1 wants it.
    packet.splice(34..34, [p0, p1, p0, p1, l0, l1, 0, 0]);
    seal_header(&mut packet, 17);
    packet.split_off(14)
}

fn seal_header(frame: &mut [u8], protocol: u8) {
    let [l0, l1] = (frame.len() as u16 - 14).to_be_bytes();
    (frame[16], frame[17], frame[23]) = (l0, l1, protocol);
    frame[24..26].fill(0);
    let sum = wire::checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

fn socket(side: &Side, address: Ipv4Addr) -> UdpSocket {
    let bind = || UdpSocket::bind(SocketAddrV4::new(address, PORT));
    let socket = side.enter(bind).expect("the namespace is there").expect("the address is there");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("it is a socket");
    socket
}

fn speak(proposal: &str, algorithm: &str) {
    let bed = whole::bed();
    let folder = std::env::temp_dir().join(format!("calisto-swan-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let (client, server) = (bed.client(), bed.server());
    for (side, host) in [(client, NEAR), (server, FAR)] {
        let address = format!("{host}/32");
        let (status, _, said) =
            run(side.command("ip").args(["addr", "add", &address, "dev", "lo"]));
        assert!(status.success(), "{said}");
    }
    let near = Swan::start(client, [client, server], [NEAR, FAR], "near", proposal, &folder);
    let far = Swan::start(server, [server, client], [FAR, NEAR], "far", proposal, &folder);
    let sniffer = Sniffer::new(client);
    near.control(client, &["--initiate", "--child", "c"]);
    let mut ours = Ours::in_place_of(&near, &bed, algorithm);

    // Ours, to strongSwan's server: before its client says anything, whose numbers would be the
    // same.
    let listening = socket(server, FAR);
    let raw = || {
        socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW))
    };
    let raw = client.enter(raw).expect("the namespace is there").expect("this test needs root");
    let to = SocketAddrV4::new(server.ipv4(), 0);
    let payloads: Vec<Vec<u8>> =
        (0..40usize).map(|number| vec![number as u8; 1 + number * 33]).collect();
    for payload in &payloads {
        let packet = UdpPacket {
            source_mac: [2; 6],
            destination_mac: [2; 6],
            source: SocketAddrV4::new(NEAR, PORT).into(),
            destination: SocketAddrV4::new(FAR, PORT).into(),
            payload,
            vlan: None,
        };
        let mut frame = vec![0; packet.len()];
        packet.write(&mut frame).expect("it fits");
        let sealed = with_udp(&ours.pass(&frame));
        assert_eq!(sendto(&raw, &sealed, SendFlags::empty(), &to), Ok(sealed.len()));
        let mut bytes = [0; 2000];
        let got = listening.recv(&mut bytes);
        let got = got.unwrap_or_else(|error| panic!("{algorithm}: {error}: {}", far.log()));
        assert_eq!(bytes[..got], payload[..], "{algorithm}");
    }

    // strongSwan's server's, to us: its client hears them too, and has a socket for them.
    let _heard = socket(client, NEAR);
    sniffer.packets();
    for payload in &payloads {
        listening.send_to(payload, SocketAddrV4::new(NEAR, PORT)).expect("there is a route");
    }
    let mut opened = Vec::new();
    wait_for("strongSwan's packets", || {
        let heard = sniffer.packets();
        let esp = heard.iter().filter_map(|frame| without_udp(frame, client.ipv4()));
        opened.extend(esp.map(|frame| ours.pass(&frame)[42..].to_vec()));
        if opened.len() >= payloads.len() { Ok(()) } else { Err(format!("{}", opened.len())) }
    });
    assert_eq!(opened, payloads, "{algorithm}");
    drop((near, far));
    fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn strongswan_opens_what_we_seal_and_we_open_what_it_seals() {
    for (proposal, algorithm) in [
        ("aes128gcm16", "aes-128-gcm"),
        ("aes128-sha256", "aes-128-cbc-hmac-sha256"),
        ("aes128-sha1", "aes-128-cbc-hmac-sha1"),
    ] {
        speak(proposal, algorithm);
    }
}
