//! A load balancer before real servers, and their clients.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use sys::ethtool::{self, Offload};
use whole::{Host, Intruder, Line, NfRun, Program, install, run, wait_for};

/// Where clients find the service, which no host has.
const SERVICE: &str = "192.0.2.80";

/// Clients are west, servers are east; both ends leave checksums open, as they do by default.
fn two_links() -> Line {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    for (host, interface) in [(0, "east"), (2, "west")] {
        let open = || ethtool::set(interface, Offload::TxChecksum, true);
        line.host(host).enter(open).expect("a veth leaves checksums open");
    }
    for number in 1..=SERVERS {
        line.host(2).ip(&format!("addr add {}/24 dev west", server(number)));
    }
    line
}

const SERVERS: u8 = 3;

fn server(number: u8) -> String {
    format!("10.90.1.1{number}")
}

fn chain(settings: &str, servers: &str) -> String {
    format!(
        "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"balancer\"\n\
         [[function.services]]\n{settings}{servers}[[function]]\nkind = \"router\"\n"
    )
}

fn servers(port: u16, weights: [u8; SERVERS as usize]) -> String {
    let one = |(number, weight)| {
        format!(
            "[[function.services.servers]]\naddress = \"{}:{port}\"\nweight = {weight}\n",
            server(number)
        )
    };
    (1..).zip(weights).map(one).collect()
}

/// A folder for nginx, with something that takes a while to be fetched.
fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("calisto-nginx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
    std::fs::write(folder.join("long"), vec![b'x'; LONG]).expect("there is room");
    folder
}

const LONG: usize = 2 << 20;

/// nginx at the address of that server, which says in each answer which one it is.
fn nginx(host: &Host, folder: &std::path::Path, number: u8) -> Program {
    let path = folder.join(format!("{number}.conf"));
    let at = folder.display();
    let text = format!(
        "daemon off; master_process off; pid {at}/{number}.pid; error_log stderr;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; client_body_temp_path {at}/b{number}; proxy_temp_path {at}/p{number};\n\
         fastcgi_temp_path {at}/f{number}; uwsgi_temp_path {at}/u{number}; scgi_temp_path {at}/s{number};\n\
         server {{ listen {}:8080; root {at}; add_header X-Server {number};\n\
         location /long {{ limit_rate 300k; }} location / {{ return 200 {number}; }} }} }}\n",
        server(number)
    );
    std::fs::write(&path, text).expect("the folder is ours");
    Program::spawn(host.command("nginx").arg("-c").arg(&path).args(["-e", "stderr"]))
}

/// What curl says of an answer: which server it is from, and how much came.
fn fetch(from: &Host, path: &str) -> std::process::Command {
    let mut command = from.command("curl");
    let url = format!("http://{SERVICE}/{path}");
    let format = "%header{x-server} %{size_download}";
    command.args([
        "--silent",
        "--max-time",
        "60",
        "--noproxy",
        "*",
        "-o",
        "/dev/null",
        "-w",
        format,
    ]);
    command.arg(url);
    command
}

/// Whether it has ended well, and what it has said.
fn outcome(program: Program) -> (bool, String) {
    let ended = program.end();
    (ended.status.success(), ended.out)
}

fn fetched(from: &Host) -> Option<String> {
    let (status, out, _) = run(&mut fetch(from, ""));
    status.success().then(|| out.split_whitespace().next().unwrap_or_default().to_owned())
}

#[test]
fn when_a_server_is_killed_only_its_own_connections_end_and_when_it_is_back_it_serves_again() {
    install(&["curl=curl", "nginx=nginx-light"]);
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    // The router's host asks the servers itself.
    let folder = folder();
    let mut running: Vec<Program> =
        (1..=SERVERS).map(|number| nginx(east, &folder, number)).collect();
    let settings = format!(
        "address = \"{SERVICE}:80\"\ncheck = \"http\"\ncheck_path = \"/health\"\ncheck_seconds = 1\n"
    );
    let text = chain(&settings, &servers(8080, [1; 3]));
    let chain = NfRun::start(middle, &text, &[]);
    wait_for("all servers", || {
        let mut seen: Vec<String> = (0..12).filter_map(|_| fetched(west)).collect();
        seen.sort_unstable();
        seen.dedup();
        if seen == ["1", "2", "3"] { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    chain.wait_for_count("balancer", "servers_well", |count| count == 3);
    let downloads: Vec<Program> =
        (0..12).map(|_| Program::spawn(&mut fetch(west, "long"))).collect();
    let opened = chain.count("balancer", "opened");
    assert!(opened >= 12, "{opened}");
    // All of them are on their way by then.
    std::thread::sleep(Duration::from_secs(2));
    drop(running.remove(1));
    chain.wait_for_count("balancer", "servers_well", |count| count == 2);
    for _ in 0..10 {
        let seen = fetched(west).expect("the others serve");
        assert!(["1", "3"].contains(&&*seen), "{seen}");
    }
    let ended: Vec<(bool, String)> = downloads.into_iter().map(outcome).collect();
    for (is_fine, said) in &ended {
        let words: Vec<&str> = said.split_whitespace().collect();
        let (who, bytes) = (words[0], words[1]);
        assert_eq!((*is_fine, bytes == LONG.to_string()), (who != "2", who != "2"), "{ended:?}");
    }
    assert!(ended.iter().any(|(is_fine, _)| *is_fine), "{ended:?}");
    running.push(nginx(east, &folder, 2));
    chain.wait_for_count("balancer", "servers_well", |count| count == 3);
    wait_for("the server that is back", || {
        let seen = fetched(west);
        if seen.as_deref() == Some("2") { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    // A reload that drains one keeps what it serves.
    let one = Program::spawn(&mut fetch(west, "long"));
    std::thread::sleep(Duration::from_secs(1));
    chain.reload(&self::chain(&settings, &servers(8080, [0, 1, 0])), &[]).expect("it is right");
    for _ in 0..8 {
        assert_eq!(fetched(west).as_deref(), Some("2"));
    }
    let (is_fine, said) = outcome(one);
    assert!(is_fine && said.trim_end().ends_with(&LONG.to_string()), "{said}");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn by_link_servers_answer_by_themselves_and_a_flood_ends_no_flow() {
    let line = two_links();
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    east.ip(&format!("addr add {SERVICE}/32 dev lo"));
    let address: IpAddr = SERVICE.parse().expect("an address");
    let at = SocketAddr::new(address, 7000);
    let listener = east.enter(|| TcpListener::bind(at)).expect("it has it on its loopback");
    let settings = format!("address = \"{at}\"\nforwarding = \"link\"\ncheck = \"none\"\n");
    let chain = NfRun::start(middle, &chain(&settings, &servers(7000, [1; 3])), &[]);
    let client = west.enter(|| TcpStream::connect_timeout(&at, Duration::from_secs(20)));
    let mut client = client.expect("there is a way");
    let (mut served, who) = listener.accept().expect("it is there");
    assert_eq!(who, client.local_addr().expect("it is bound"), "the client itself is seen");
    let Ok(IpAddr::V4(four)) = SERVICE.parse() else { unreachable!("it is of version 4") };
    let sender = std::thread::spawn(move || {
        let bytes: Vec<u8> = (0..1_u32 << 21).map(|n| (n % 251) as u8).collect();
        client.write_all(&bytes).expect("it is open");
        client
    });
    Intruder::on(west).flood(SocketAddrV4::new(four, 7000), 4000);
    let mut heard = vec![0; 1 << 21];
    served.set_read_timeout(Some(Duration::from_secs(60))).expect("it has one");
    served.read_exact(&mut heard).expect("all of it comes");
    assert!(heard.iter().zip(0_u32..).all(|(byte, n)| u32::from(*byte) == n % 251));
    let mut client = sender.join().expect("everything was sent");
    served.write_all(b"thanks").expect("it is open");
    client.read_exact(&mut heard[..6]).expect("it comes");
    assert_eq!(&heard[..6], b"thanks");
    assert!(chain.count("balancer", "sent") > 4000, "{:?}", chain.figures());
    assert_eq!(chain.count("balancer", "returned"), 0);
}
