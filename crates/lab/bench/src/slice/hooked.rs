//! A chain whose functions run in the XDP hook of the wires.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use chain::file::ChainFile;
use chain::{Chain, Event};
use testbed::ScratchDir;

use super::in_process::{InProcess, Stop};
use super::wires::{IN, OUT};
use crate::error::{Error, OrNeeds};

/// How long one may take until it forwards.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Rules before the one that packets meet.
const RULES: u8 = 15;

/// The chain, on a thread of this process; ended when dropped.
pub(super) struct Hooked {
    chain: InProcess,
    /// Of its socket: after the chain.
    _folder: ScratchDir,
}

impl Hooked {
    /// Starts it and waits until all of it is in the hook.
    pub(super) fn start(namespace: &str, cpu: usize, has_rules: bool) -> Result<Self, Error> {
        let folder = ScratchDir::new("hook").or_needs("folder for a socket")?;
        let file = ChainFile::parse(&text(has_rules), "bench").or_needs("chain")?;
        let (tell, told) = mpsc::channel();
        let sockets = folder.path().to_owned();
        let work = move |stop: &Stop| run(&file, &sockets, stop, &tell);
        let mut chain = InProcess::start(namespace, cpu, work)?;
        match told.recv_timeout(TIMEOUT) {
            Ok(None) => Ok(Self { chain, _folder: folder }),
            Ok(Some(why)) => Err(why).or_needs("function in the hook"),
            Err(_) => {
                chain.unless_ended()?;
                Err("it does not forward").or_needs("chain in the hook")
            }
        }
    }

    /// An error if it has ended: why.
    pub(super) fn unless_ended(&mut self) -> Result<(), Error> {
        self.chain.unless_ended()
    }
}

fn text(has_rules: bool) -> String {
    let mut text = format!(
        "name = \"bench\"\nhook = \"auto\"\n[[slice]]\nports = [\"xdp:{IN}\", \"xdp:{OUT}\"]\n"
    );
    if has_rules {
        text.push_str("[[function]]\nkind = \"acl\"\ndefault = \"deny\"\n");
        for network in 0..RULES {
            text.push_str(&format!(
                "[[function.rules]]\naction = \"deny\"\nsource = \"192.168.{network}.0/24\"\n"
            ));
        }
        text.push_str("[[function.rules]]\naction = \"permit\"\nprotocol = \"udp\"\n");
    }
    text.push_str("[[function]]\nkind = \"router\"\n");
    text
}

/// Runs it, and tells why a function or an exit is not in the hook; nothing: all are.
fn run(
    file: &ChainFile,
    sockets: &Path,
    stop: &Stop,
    tell: &mpsc::Sender<Option<String>>,
) -> Result<(), Error> {
    let mut hear = |_: Event| {};
    let mut chain = Chain::start(file, sockets, sockets, &mut hear).or_needs("chain")?;
    let hook = chain.figures().hook;
    let out = hook.exits.iter().filter(|exit| exit.name == OUT);
    let mut all = hook.functions.iter().chain(out);
    let absent = all.find(|place| !place.hook);
    let why =
        absent.map(|place| format!("{}: {}", place.name, place.why.clone().unwrap_or_default()));
    // Whoever waited has gone, and will tell us to stop.
    let _ = tell.send(why);
    chain.run(|| stop.is_asked(), &mut hear).or_needs("chain that goes on")
}
