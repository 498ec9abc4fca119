//! Applications beside the one that is measured: honest ones, and hostile ones that
//! do one wrong thing at full speed until they are told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use attach::{AttachRequest, Link, ToApp, ToDaemon};
use base::Nanos;
use clap::ValueEnum;
use shm::packets::{Next, PacketEnd, PacketMemory};
use sys::eventfd::EventFd;
use wire::build::UdpPacket;

use super::{VICTIM_PORT, greet, is_over};
use crate::error::{Error, OrNeeds};
use crate::flows::{SEED, SplitMix};

/// Turns between two looks at whether it is to stop or is detached.
const TURNS: usize = 1024;

/// How long the daemon may take to answer, and to notice a violation.
const TIMEOUT: Nanos = Nanos::from_secs(5);

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Conduct {
    /// Takes its packets, spinning.
    Honest,
    /// Attaches and sleeps until it is killed.
    Mortal,
    /// Sends packets in another application's name.
    Spoof,
    /// Rings a doorbell of its own: as many system calls as programs that are hostile by them.
    RingOwn,
    /// Rings the daemon's doorbell without a reason.
    Ring,
    /// Says that it sleeps, always.
    Sleep,
    /// Writes garbage into its ring, is thrown out, comes back.
    Garbage,
}

/// An attachment, without the library that keeps applications honest.
struct RawAttachment {
    link: Link,
    memory: PacketMemory,
    end: PacketEnd,
    daemon: EventFd,
    pipe: OwnedFd,
    mac: [u8; 6],
}

impl RawAttachment {
    fn take(socket: &Path, listen: SocketAddr) -> Result<Self, Error> {
        let link = Link::connect(socket).or_needs("attachment")?;
        let request = AttachRequest {
            name: "neighbour".to_owned(),
            listen: vec![format!("udp:{listen}")],
            workers: 1,
            frames: None,
            frame_bytes: None,
            cores: None,
            features: 0,
        };
        link.send(&ToDaemon::Attach(request)).or_needs("attachment")?;
        let (answer, descriptors) = answer(&link)?;
        let attached = match answer {
            ToApp::Attached(attached) => attached,
            other => return Err(format!("the daemon says {other:?}")).or_needs("attachment"),
        };
        let mac = attached.ports.first().and_then(|port| port.mac).unwrap_or_default();
        let [region, daemon, pipe] = <[OwnedFd; 3]>::try_from(descriptors)
            .map_err(|_| "not three descriptors")
            .or_needs("attachment")?;
        let mut memory = PacketMemory::open(region).or_needs("attachment")?;
        let end = memory.end(0).ok_or("no worker").or_needs("attachment")?;
        let daemon = EventFd::from_fd(daemon).or_needs("attachment")?;
        // The daemon's writing end is another open file: this changes nothing for it.
        let flags = rustix::fs::fcntl_getfl(&pipe).or_needs("attachment")?;
        rustix::fs::fcntl_setfl(&pipe, flags | rustix::fs::OFlags::NONBLOCK)
            .or_needs("attachment")?;
        Ok(Self { link, memory, end, daemon, pipe, mac })
    }

    /// Whether to go on as it is.
    fn stays(&self) -> bool {
        self.memory.state() == 0 && !self.link.is_closed() && !is_over()
    }

    /// Takes and gives back what was received; false when the rings are of no more use.
    fn swallow(&mut self) -> bool {
        loop {
            match self.end.receive() {
                Ok(Next::Packet(frame)) => {
                    if self.end.done(frame).is_err() {
                        return false;
                    }
                }
                Ok(Next::Detach(_) | Next::Attach(_)) => {}
                Ok(Next::Empty | Next::FramesOut | Next::Retired) => break,
                Err(_) => return false,
            }
        }
        if self.end.publish() {
            self.daemon.ring();
        }
        true
    }
}

/// The daemon's answer. Looks for it without sleeping: a CPU that halts between two attempts
/// would be slow for whoever shares it, which is not what is measured.
fn answer(link: &Link) -> Result<(ToApp, Vec<OwnedFd>), Error> {
    let began = sys::clock::now();
    while !is_over() && sys::clock::now().since(began) < TIMEOUT {
        if let Some(answer) = link.receive(Nanos::ZERO).or_needs("attachment")? {
            return Ok(answer);
        }
    }
    Err("no answer").or_needs("attachment")
}

/// Is a helper until it is told to stop; then prints what it did wrong, and how often.
pub(super) fn run(
    conduct: Conduct,
    socket: &Path,
    listen: SocketAddr,
    client: SocketAddr,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let own = EventFd::new().or_needs("eventfd")?;
    let (mut acts, mut greeted) = (0_u64, false);
    while !is_over() {
        let mut attachment = match RawAttachment::take(socket, listen) {
            Ok(attachment) => attachment,
            // What it held before is let go of in a moment.
            Err(_) if greeted => continue,
            Err(error) => return Err(error),
        };
        if !greeted {
            greet(out)?;
            greeted = true;
        }
        let forged = forged(listen, client, attachment.mac)?;
        while attachment.stays() {
            match conduct {
                Conduct::Mortal => std::thread::sleep(Duration::from_millis(20)),
                Conduct::Honest => {
                    for _ in 0..TURNS {
                        attachment.swallow();
                    }
                }
                Conduct::Spoof => acts += spoof(&mut attachment, &forged),
                Conduct::RingOwn => (0..TURNS).for_each(|_| own.ring()),
                Conduct::Ring => {
                    (0..TURNS).for_each(|_| attachment.daemon.ring());
                    acts += TURNS as u64;
                }
                Conduct::Sleep => acts += pretend_to_sleep(&mut attachment),
                Conduct::Garbage => acts += u64::from(write_garbage(&mut attachment)),
            }
        }
    }
    writeln!(out, "acts {acts}").and_then(|()| out.flush()).map_err(Error::Output)
}

/// A packet from where somebody else listens.
fn forged(listen: SocketAddr, client: SocketAddr, mac: [u8; 6]) -> Result<Vec<u8>, Error> {
    let victim = SocketAddr::new(listen.ip(), VICTIM_PORT);
    let packet = UdpPacket {
        source_mac: mac,
        // It never leaves.
        destination_mac: [2, 0, 0, 0, 0, 1],
        source: victim,
        destination: client,
        payload: &[0; 18],
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).ok_or("it is as long as it says").or_needs("packet")?;
    Ok(bytes)
}

/// As many forged packets as its ring takes, many times.
fn spoof(attachment: &mut RawAttachment, packet: &[u8]) -> u64 {
    let mut sent = 0;
    for _ in 0..TURNS {
        while let Ok(Some(mut frame)) = attachment.end.take() {
            if !frame.fill(packet) || attachment.end.send(frame).is_err() {
                return sent;
            }
            sent += 1;
        }
        if attachment.end.publish() {
            attachment.daemon.ring();
        }
        if !attachment.swallow() {
            return sent;
        }
    }
    sent
}

/// Asks to be woken for each packet, and never sleeps; how often it was woken.
fn pretend_to_sleep(attachment: &mut RawAttachment) -> u64 {
    let mut woken = 0;
    for _ in 0..TURNS {
        attachment.end.arm();
        if attachment.end.has_next() && !attachment.swallow() {
            return woken;
        }
    }
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = rustix::io::read(&attachment.pipe, &mut bytes) {
        woken += count as u64;
    }
    woken
}

/// Random words instead of messages, until it is thrown out; whether it was.
fn write_garbage(attachment: &mut RawAttachment) -> bool {
    let mut random = SplitMix(SEED ^ u64::from(std::process::id()));
    let began = sys::clock::now();
    while attachment.memory.state() == 0 && sys::clock::now().since(began) < TIMEOUT {
        attachment.end.forge(std::array::from_fn(|_| random.next()));
        attachment.daemon.ring();
    }
    attachment.memory.state() != 0
}
