//! What an application in packet mode has for itself alone, beside sockets of the kernel.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use attach::Call;
use base::{Nanos, PortId};
use port::xdp::{Destination, Protocol};
use sys::clock;

use super::super::super::guards::destination;
use super::super::super::routes::Link;
use super::fixture::{Fixture, in_namespace, slot};

/// The user of the application. All sockets here are root's.
const USER: u32 = 1000;
const ROOT: u32 = 0;

fn on_loopback() -> Fixture {
    const LOOPBACK: u32 = 1;
    let link = Link { interface: LOOPBACK, port: PortId(0), mac: [0; 6] };
    Fixture::with_links("", vec![link])
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn packet_mode_gives_a_port_back_when_another_user_binds_it_at_the_kernel() {
    in_namespace("alone-a", || {
        let mut place = on_loopback();
        let [bound, shared, free, tcp] = [
            (Protocol::Udp, 8000),
            (Protocol::Udp, 8001),
            (Protocol::Udp, 8002),
            (Protocol::Tcp, 8003),
        ]
        .map(|(protocol, port)| destination(protocol, at(port)));
        let all = Destination { port: None, ..tcp };
        let held = [bound, shared, free, tcp, all].map(|at| (at, USER));
        let mut now = clock::now();
        let mut lost = |place: &mut Fixture, held: &[(Destination, u32)]| {
            now += Nanos::from_millis(250);
            // The last look for connected sockets is too old then.
            std::thread::sleep(std::time::Duration::from_millis(150));
            place.socket_table.lost_alone(held, now)
        };
        assert_eq!(lost(&mut place, &held), [], "nobody is there");
        let _bound = UdpSocket::bind(at(8000)).expect("nothing is bound for packet mode");
        let connected = UdpSocket::bind(at(8001)).expect("nothing is bound for packet mode");
        connected.connect(at(9)).expect("loopback is up");
        let listener = TcpListener::bind(at(8003)).expect("nothing is bound for packet mode");
        let theirs = [(bound, Some(ROOT)), (shared, None), (tcp, Some(ROOT))];
        assert_eq!(lost(&mut place, &held), theirs);
        let of_root = held.map(|(at, _)| (at, ROOT));
        assert_eq!(lost(&mut place, &of_root), [], "it is root's own");
        drop(listener);
        assert_eq!(lost(&mut place, &held), theirs[..2]);
    });
}

#[test]
fn packet_mode_takes_neither_a_port_nor_all_where_another_user_has_connections_of_the_kernel() {
    in_namespace("alone-b", || {
        let mut place = on_loopback();
        let mut others = |protocol, port: Option<u16>, uid| {
            let address = Some(at(0).ip());
            let wanted = Destination { protocol, address, port };
            let anywhere = Destination { address: None, ..wanted };
            let [one, other] = [wanted, anywhere].map(|at| place.socket_table.others_at(at, uid));
            assert_eq!(one, other);
            one.unwrap_or_default()
        };
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            assert_eq!(others(protocol, Some(8000), USER), "");
            assert_eq!(others(protocol, None, USER), "");
        }
        let socket = UdpSocket::bind(at(8000)).expect("nobody is here");
        let bound = "user 0 has a socket of the kernel";
        assert_eq!(others(Protocol::Udp, Some(8000), USER), bound);
        assert_eq!(others(Protocol::Udp, None, USER), format!("{bound} (127.0.0.1:8000)"));
        socket.connect(at(9)).expect("loopback is up");
        let connected = "user 0 has a connected socket of the kernel (127.0.0.1:8000)";
        for port in [Some(8000), None] {
            assert_eq!(others(Protocol::Udp, port, USER), connected);
            assert_eq!(others(Protocol::Udp, port, ROOT), "");
        }
        assert_eq!(others(Protocol::Udp, Some(8001), USER), "");
        let listener = TcpListener::bind("[::]:8000").expect("nobody is here");
        assert_eq!(others(Protocol::Tcp, None, USER), format!("{bound} ([::]:8000)"));
        let client = TcpStream::connect(at(8000)).expect("it listens");
        let (accepted, _) = listener.accept().expect("it has come");
        drop((listener, client));
        assert_eq!(others(Protocol::Tcp, Some(8000), USER), connected);
        assert_eq!(others(Protocol::Tcp, None, USER), connected);
        drop(accepted);
    });
}

#[test]
fn who_is_refused_a_port_hears_whether_a_listener_is_served_there_or_what_it_has_left() {
    in_namespace("alone-c", || {
        let mut place = on_loopback();
        let (mut process, _) = place.attach("server").expect("anybody may");
        let listener = TcpListener::bind(at(8000)).expect("nobody is here");
        slot(&place.call(&mut process, &Call::Listen { backlog: 1 }, Some(&listener)));
        let wanted = destination(Protocol::Tcp, at(8000));
        assert!(place.claims.has_shared(wanted));
        let served = "sockets of programs are served";
        assert_eq!(place.socket_table.served_at(wanted), served);
        let every = Destination { address: None, port: None, ..wanted };
        assert_eq!(place.socket_table.served_at(every), served);
        drop(listener);
        let left = "connections are still served that came to a listener of a program";
        place.wait_until(|socket_table| socket_table.served_at(wanted) == left);
    });
}
