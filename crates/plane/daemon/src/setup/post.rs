//! What the attach server and workers that serve sockets need of each other.

use std::sync::Arc;

use base::{AppId, PortId};
use config::Config;
use port::PortSpec;
use stack::CommandQueue;
use sys::eventfd::EventFd;

use crate::attach_server_counters::AttachServerCounters;
use crate::doorbells::Doorbells;
use crate::engine::{flow, mtu};
use crate::failure::Failure;
use crate::guardian::Guardian;
use crate::open_sockets::OpenSockets;
use crate::sockets::{Link, PortInterface, SocketTable, SocketTableConfig};

fn cannot_look(error: std::io::Error) -> Failure {
    Failure::Said(format!(
        "cannot start the process that looks for open sockets: {error}; `confine = false` does \
         without it"
    ))
}

/// The post between the attach server and workers that serve sockets.
pub(super) struct Post {
    pub(super) command_queue: CommandQueue,
    /// Wakes workers that sleep.
    workers_doorbell: Arc<EventFd>,
    pub(super) attach_server_wake: Arc<EventFd>,
}

impl Post {
    pub(super) fn new() -> Result<Self, Failure> {
        let (workers_doorbell, attach_server_wake) =
            (Arc::new(EventFd::new()?), Arc::new(EventFd::new()?));
        let (wake, tell) = (Arc::clone(&workers_doorbell), Arc::clone(&attach_server_wake));
        let command_queue = CommandQueue::new(move || wake.ring(), move || tell.ring());
        Ok(Self { command_queue, workers_doorbell, attach_server_wake })
    }

    /// The slow side.
    pub(super) fn socket_table(
        self,
        config: &Config,
        dispatcher: &datapath::Dispatcher<port::AnyPort>,
        doorbells: Doorbells,
        counters: Arc<AttachServerCounters>,
        guardian: Option<Guardian>,
    ) -> Result<SocketTable, Failure> {
        // Each connection that is opened here takes a descriptor for its port, for as long as its
        // name is taken. With fewer, ports are guarded for fewer connections.
        sys::open_files::raise();
        // No application has this number.
        doorbells.add(AppId(0), Arc::clone(&self.workers_doorbell));
        let (mut links, mut names) = (Vec::new(), Vec::new());
        for (text, (dispatcher_port, id)) in
            config.ports.iter().zip(dispatcher.ports().iter().zip(0..))
        {
            let spec: PortSpec = text.parse()?;
            let name = spec.interface().unwrap_or_default();
            if let Some(interface) = sys::interface::index_of(name) {
                let mac = dispatcher_port.mac();
                names.push(PortInterface {
                    number: interface,
                    name: name.to_owned(),
                    comes_back: matches!(spec, PortSpec::Xdp { .. }),
                    // The interface of a TAP is the kernel's end.
                    mac: (!matches!(spec, PortSpec::Tap { .. })).then_some(mac),
                });
                links.push(Link { interface, port: PortId(id), mac });
            }
        }
        // While nobody can speak to this process yet.
        let open_sockets = match config.confine {
            true => OpenSockets::start(std::env::current_exe().map_err(cannot_look)?),
            false => Ok(OpenSockets::here()),
        };
        let open_sockets = open_sockets.map_err(cannot_look)?;
        let (config, flow, mtu) = (Arc::new(config.clone()), flow(config), mtu(dispatcher.ports()));
        let Self { command_queue, workers_doorbell, .. } = self;
        let config = SocketTableConfig {
            config,
            command_queue,
            workers_doorbell,
            doorbells,
            links,
            names,
            mtu,
            flow,
            counters,
            open_sockets,
            guardian,
        };
        Ok(SocketTable::new(config)?)
    }
}
