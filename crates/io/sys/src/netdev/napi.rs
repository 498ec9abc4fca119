//! The NAPI instance that polls a queue of a NIC (Linux 6.8).

use rustix::io::Errno;
use rustix::net::netlink;

use super::{command, family};
use crate::SysError;
use crate::netlink::{NLM_F_ACK, NLM_F_DUMP, Request, attributes};

/// Commands and attributes of linux/netdev.h.
const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_QUEUE_ID: u16 = 1;
const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
const NETDEV_A_QUEUE_TYPE: u16 = 3;
const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
const NETDEV_QUEUE_TYPE_RX: u32 = 0;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ: u16 = 3;
const NETDEV_A_NAPI_PID: u16 = 4;
const NETDEV_A_NAPI_THREADED: u16 = 8;

/// What polls a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Napi {
    /// Its number, which SO_INCOMING_NAPI_ID tells too.
    pub id: u32,
    /// The interrupt that starts it; `None`: it has none (a veth), or the driver does not tell.
    pub irq: Option<u32>,
    /// The kernel's thread that runs it; `None`: it runs where it was started.
    pub thread: Option<u32>,
}

/// What polls receive queue `queue` of interface `index`, in the calling thread's namespace.
///
/// Where the driver does not say (veth), the instances are taken to be those of the queues in
/// order, if there is one for each of the `queues`.
///
/// # Errors
/// No such interface, no queue that is polled (it is down, or without XDP), or a kernel older than
/// 6.8.
pub fn napi_of_queue(index: u32, queue: u32, queues: u32) -> Result<Napi, SysError> {
    ask(index, queue, queues).map_err(|errno| {
        let advice = match errno {
            Errno::NOENT | Errno::OPNOTSUPP => "Linux 6.8 is the first that tells",
            Errno::NODEV => "the interface is gone",
            _ => "is the interface up?",
        };
        let doing = format!("find what polls queue {queue} of interface {index}");
        SysError::new(doing, errno, advice)
    })
}

/// Gives instance `napi` a thread of its own, or takes it away: a thread can be placed on CPUs.
///
/// # Errors
/// CAP_NET_ADMIN is missing, no such instance here, or a kernel older than 6.17.
pub fn set_threaded(napi: u32, threaded: bool) -> Result<(), SysError> {
    let set = || {
        Request::new(family()?, NLM_F_ACK, &command(NETDEV_CMD_NAPI_SET))
            .attribute(NETDEV_A_NAPI_ID, &napi.to_ne_bytes())
            .attribute(NETDEV_A_NAPI_THREADED, &u32::from(threaded).to_ne_bytes())
            .send_to(Some(netlink::GENERIC), |_, _| {})
    };
    set().map_err(|errno| {
        let advice = match errno {
            Errno::PERM => "CAP_NET_ADMIN is needed: run as root",
            Errno::NOENT => "there is no such instance here",
            _ => "Linux 6.17 is the first that can for one queue",
        };
        let word = if threaded { "a thread" } else { "no thread" };
        SysError::new(format!("give NAPI instance {napi} {word}"), errno, advice)
    })
}

fn ask(index: u32, queue: u32, queues: u32) -> Result<Napi, Errno> {
    let family = family()?;
    let mut all = Vec::new();
    Request::new(family, NLM_F_DUMP, &command(NETDEV_CMD_NAPI_GET))
        .attribute(NETDEV_A_NAPI_IFINDEX, &index.to_ne_bytes())
        .send_to(Some(netlink::GENERIC), |_, body| all.extend(parse(body)))?;
    let mut named = None;
    let asked = Request::new(family, NLM_F_ACK, &command(NETDEV_CMD_QUEUE_GET))
        .attribute(NETDEV_A_QUEUE_IFINDEX, &index.to_ne_bytes())
        .attribute(NETDEV_A_QUEUE_ID, &queue.to_ne_bytes())
        .attribute(NETDEV_A_QUEUE_TYPE, &NETDEV_QUEUE_TYPE_RX.to_ne_bytes())
        .send_to(Some(netlink::GENERIC), |_, body| {
            named = named.or(number(body, NETDEV_A_QUEUE_NAPI_ID));
        });
    match (asked, named) {
        (Err(errno), _) => Err(errno),
        (Ok(()), Some(id)) => all.into_iter().find(|napi| napi.id == id).ok_or(Errno::NODATA),
        (Ok(()), None) => in_order(all, queue, queues).ok_or(Errno::NODATA),
    }
}

/// The instance of a queue, when nothing but the numbers is known: they are given in order.
fn in_order(mut all: Vec<Napi>, queue: u32, queues: u32) -> Option<Napi> {
    all.sort_unstable_by_key(|napi| napi.id);
    if all.len() != queues as usize {
        return None;
    }
    all.get(queue as usize).copied()
}

fn parse(body: &[u8]) -> Option<Napi> {
    let id = number(body, NETDEV_A_NAPI_ID)?;
    let some = |kind| number(body, kind).filter(|&number| number > 0);
    Some(Napi { id, irq: some(NETDEV_A_NAPI_IRQ), thread: some(NETDEV_A_NAPI_PID) })
}

fn number(body: &[u8], kind: u16) -> Option<u32> {
    let (_, value) = attributes(body.get(4..)?).find(|&(found, _)| found == kind)?;
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(attributes: &[(u8, u32)]) -> Vec<u8> {
        let mut bytes = vec![11, 1, 0, 0];
        for (kind, value) in attributes {
            bytes.extend_from_slice(&[8, 0, *kind, 0]);
            bytes.extend_from_slice(&value.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn an_instance_is_read_with_its_interrupt_and_thread_where_it_has_them() {
        let napi = |irq, thread| Some(Napi { id: 8193, irq, thread });
        assert_eq!(parse(&reply(&[(1, 3), (2, 8193)])), napi(None, None));
        assert_eq!(parse(&reply(&[(2, 8193), (3, 40), (4, 77)])), napi(Some(40), Some(77)));
        assert_eq!(parse(&reply(&[(2, 8193), (3, 0)])), napi(None, None), "no interrupt is zero");
        assert_eq!(parse(&reply(&[(1, 3)])), None);
        assert_eq!(parse(&[1]), None);
    }

    #[test]
    fn queues_get_the_instances_in_order_only_if_there_are_as_many() {
        let napi = |id| Napi { id, ..Napi::default() };
        let all = vec![napi(9), napi(7), napi(8)];
        assert_eq!(in_order(all.clone(), 1, 3), Some(napi(8)));
        assert_eq!(in_order(all.clone(), 3, 3), None);
        assert_eq!(in_order(all, 0, 2), None);
    }

    #[test]
    fn a_missing_interface_or_instance_is_an_error_with_a_sentence() {
        let error = napi_of_queue(u32::MAX >> 1, 0, 1).expect_err("nobody has it").to_string();
        assert!(error.contains("find what polls queue 0"), "{error}");
        assert!(set_threaded(u32::MAX >> 1, true).is_err());
    }
}
