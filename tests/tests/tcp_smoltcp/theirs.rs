//! smoltcp with one connection, on a device that is two queues.

use std::cell::Cell;
use std::collections::VecDeque;

use base::Nanos;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{RecvError, Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpCidr};

use crate::Application;
use crate::plan::Plan;

thread_local! {
    /// What smoltcp's timestamps count: it asks for them by a function without arguments.
    static CLOCK: Cell<u32> = const { Cell::new(0) };
}

/// Both queues, by packet.
#[derive(Debug)]
struct Queues {
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    mtu: usize,
}

struct Taken(Vec<u8>);

struct TxBuffer<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Taken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for TxBuffer<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Taken;
    type TxToken<'a> = TxBuffer<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Taken, TxBuffer<'_>)> {
        let packet = self.received.pop_front()?;
        Some((Taken(packet), TxBuffer(&mut self.sent)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<TxBuffer<'_>> {
        Some(TxBuffer(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// smoltcp's side.
pub(crate) struct Theirs {
    interface: Interface,
    queues: Queues,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    /// It was in a state that only the peer's FIN leads to.
    has_heard_end: bool,
    pub(crate) application: Application,
}

fn instant(now: Nanos) -> Instant {
    Instant::from_micros((now.0 / 1000).cast_signed())
}

fn tick() -> u32 {
    CLOCK.get()
}

impl Theirs {
    pub(crate) fn new(plan: &Plan, now: Nanos) -> Self {
        let mut queues =
            Queues { received: VecDeque::new(), sent: Vec::new(), mtu: usize::from(plan.mtus[1]) };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = plan.seed;
        let mut interface = Interface::new(config, &mut queues, instant(now));
        let [remote, local] = plan.ends();
        interface.update_ip_addrs(|addresses| {
            let cidr = IpCidr::new(local.ip().into(), if plan.is_v6 { 64 } else { 24 });
            addresses.push(cidr).expect("there is room for one");
        });
        let [receive, send] = plan.their_buffers.map(|bytes| SocketBuffer::new(vec![0; bytes]));
        let mut socket = Socket::new(receive, send);
        socket.set_congestion_control(plan.their_congestion);
        socket.set_nagle_enabled(plan.their_nagle);
        socket.set_ack_delay(plan.their_ack_delay.then(|| Duration::from_millis(10)));
        socket.set_tsval_generator(plan.their_timestamps.then_some(tick));
        if plan.is_client {
            socket.listen(local.port()).expect("the port is one");
        } else {
            let connected =
                socket.connect(interface.context(), (remote.ip(), remote.port()), local.port());
            connected.expect("there is a way");
        }
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        let application = Application::new(plan, 1);
        Self { interface, queues, sockets, socket, has_heard_end: false, application }
    }

    pub(crate) fn receive(&mut self, packet: Vec<u8>) {
        self.queues.received.push_back(packet);
    }

    pub(crate) fn turn(&mut self, now: Nanos, may_read: bool) {
        CLOCK.set((now.0 / 1_000_000) as u32);
        self.interface.poll(instant(now), &mut self.queues, &mut self.sockets);
        self.act(may_read);
        self.interface.poll(instant(now), &mut self.queues, &mut self.sockets);
    }

    fn act(&mut self, may_read: bool) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        self.has_heard_end |= matches!(socket.state(), State::TimeWait | State::LastAck);
        let application = &mut self.application;
        if socket.may_send() {
            let sent = socket.send_slice(application.next()).expect("it is open");
            application.sent += sent;
            if application.may_shut() {
                application.has_shut = true;
                socket.close();
            }
        }
        // What was not read when TIME-WAIT ends it forgets.
        let is_last_chance = socket.state() == State::TimeWait;
        if !(may_read || is_last_chance) || application.is_at_end {
            return;
        }
        let chunk = if is_last_chance { socket.recv_queue().max(1) } else { application.chunk };
        let mut bytes = vec![0; chunk];
        match socket.recv_slice(&mut bytes) {
            Ok(count) => application.received.extend(&bytes[..count]),
            Err(RecvError::Finished) => application.is_at_end = true,
            // Closed, it forgets that there was an end.
            Err(RecvError::InvalidState) if self.has_heard_end => application.is_at_end = true,
            // Before the connection stands, or after a reset.
            Err(RecvError::InvalidState) => {}
        }
    }

    /// Whether the application could go on at once, if it may read.
    pub(crate) fn can_act(&mut self) -> bool {
        let socket = self.sockets.get::<Socket<'_>>(self.socket);
        let has_end = !socket.may_recv()
            && !matches!(socket.state(), State::Listen | State::SynSent | State::SynReceived);
        socket.can_recv()
            || (has_end && !self.application.is_at_end)
            || (socket.can_send() && !self.application.has_sent_all())
            || (socket.may_send() && self.application.may_shut())
    }

    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.queues.sent)
    }

    pub(crate) fn next_deadline(&mut self, now: Nanos) -> Option<Nanos> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        Some(Nanos(at.total_micros().max(0).cast_unsigned() * 1000))
    }

    pub(crate) fn is_over(&self) -> bool {
        let state = self.sockets.get::<Socket<'_>>(self.socket).state();
        state == State::Closed && self.application.is_at_end
    }
}

impl std::fmt::Debug for Theirs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let socket = self.sockets.get::<Socket<'_>>(self.socket);
        f.debug_struct("Theirs")
            .field("state", &socket.state())
            .field("queued", &(socket.send_queue(), socket.recv_queue()))
            .finish_non_exhaustive()
    }
}
