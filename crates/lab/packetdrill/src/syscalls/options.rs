//! Socket options, fcntl and ioctl.

use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};

use tcp::FlowOptions;

use super::{Calls, Fails, Outcome, Returns};
use crate::script::{Call, Value};
use crate::settings;
use crate::socket::Socket;
use crate::testbed::Testbed;

fn word(value: Option<&Value>) -> Result<&str, String> {
    match value {
        Some(Value::Words(words)) => words.first().map(String::as_str).ok_or("a name".into()),
        other => Err(format!("{other:?} is no name of an option")),
    }
}

impl Calls {
    pub(super) fn fcntl(&mut self, number: i64, call: &Call) -> Result<Outcome, String> {
        let socket = self.socket(number)?;
        if word(call.arguments.get(1))? == "F_SETFL" {
            let flags = call.arguments.get(2);
            socket.is_nonblocking = flags.is_some_and(|flags| flags.has_word("O_NONBLOCK"));
            return Ok(Returns(0));
        }
        // O_RDWR, and O_NONBLOCK if it is set.
        Ok(Returns(if socket.is_nonblocking { 0x802 } else { 0x2 }))
    }

    pub(super) fn ioctl(
        &mut self,
        testbed: &Testbed,
        number: i64,
        call: &Call,
    ) -> Result<Outcome, String> {
        let Some(flow) = self.socket(number)?.flow else { return Ok(Fails("EINVAL")) };
        let info = testbed.engine.info(flow);
        let count = match word(call.arguments.get(1))? {
            "SIOCINQ" | "FIONREAD" => testbed.engine.readable(flow).bytes,
            "SIOCOUTQ" => info.map_or(0, |info| info.queued_bytes),
            "SIOCOUTQNSD" => info.map_or(0, |info| info.unsent_bytes),
            "SIOCATMARK" => u32::from(testbed.engine.urgent(flow) == Some(0)),
            other => return Err(format!("ioctl {other} is not known")),
        };
        let expected = call.arguments.get(2).and_then(Value::number).unwrap_or(0);
        if expected == i64::from(count) {
            return Ok(Returns(0));
        }
        Err(format!("ioctl should say {expected}: {count}"))
    }

    pub(super) fn set_option(
        &mut self,
        testbed: &mut Testbed,
        number: i64,
        call: &Call,
    ) -> Result<Outcome, String> {
        let name = word(call.arguments.get(2))?.to_string();
        let value = call.arguments.get(3).cloned().unwrap_or(Value::Null);
        let socket = self.socket(number)?;
        let number = value.number().unwrap_or(0);
        socket.values.insert(name.clone(), number);
        let small = u8::try_from(number).unwrap_or(u8::MAX);
        let options = &mut socket.options;
        match name.as_str() {
            "SO_SNDBUF" => {
                // Linux doubles it, and gives it back so.
                let bytes = u32::try_from(number).unwrap_or(0).saturating_mul(2);
                socket.send_buffer = bytes;
                socket.values.insert(name, bytes.into());
            }
            "TCP_NODELAY" => options.no_delay = number != 0,
            "TCP_CORK" => socket.corked = number != 0,
            "TCP_DEFER_ACCEPT" => {
                options.defer_accept = FlowOptions::timeouts_in(u32::try_from(number).unwrap_or(0));
            }
            "TCP_MAXSEG" => options.mss_max = u16::try_from(number).ok().and_then(NonZeroU16::new),
            "TCP_NOTSENT_LOWAT" => {
                socket.not_sent_low = match u32::try_from(number) {
                    Ok(0) | Err(_) => u32::MAX,
                    Ok(bytes) => bytes,
                };
            }
            "TCP_USER_TIMEOUT" => {
                options.user_timeout_ms = u32::try_from(number).ok().and_then(NonZeroU32::new);
            }
            "TCP_CONGESTION" => {
                let Value::Text(name) = &value else { return Ok(Fails("EINVAL")) };
                let Some(algorithm) = settings::algorithm(name) else {
                    return Ok(Fails("ENOENT"));
                };
                options.congestion = algorithm;
            }
            "SO_LINGER" => {
                let is_on = value.field("onoff").and_then(Value::number) == Some(1);
                let seconds = value.field("linger").and_then(Value::number).unwrap_or(0);
                socket.values.insert(name, if is_on { seconds } else { -1 });
            }
            "SO_KEEPALIVE" => options.keep_alive = (number != 0).then_some(socket.keep_alive),
            "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => {
                let keep_alive = &mut socket.keep_alive;
                match name.as_str() {
                    "TCP_KEEPIDLE" => keep_alive.idle_s = u32::from(small),
                    "TCP_KEEPINTVL" => keep_alive.interval_s = u16::from(small),
                    _ => keep_alive.probes = NonZeroU8::new(small).unwrap_or(NonZeroU8::MIN),
                }
            }
            "SO_REUSEADDR" | "SO_ZEROCOPY" | "TCP_INQ" | "IP_TOS" | "IP_MTU_DISCOVER"
            | "SO_RCVBUF" | "SO_OOBINLINE" | "TCP_QUICKACK" => {}
            other => return Err(format!("the option {other} is not known")),
        }
        let is_name = |other: &str| call.arguments.get(2).is_some_and(|name| name.has_word(other));
        apply(testbed, socket, &is_name);
        Ok(Returns(0))
    }

    pub(super) fn get_option(
        &mut self,
        testbed: &Testbed,
        number: i64,
        call: &Call,
    ) -> Result<Outcome, String> {
        let name = word(call.arguments.get(2))?;
        let socket = self.socket(number)?;
        let info = socket.flow.and_then(|flow| testbed.engine.info(flow));
        let value = match (name, info) {
            ("SO_ERROR", _) => match socket.error().filter(|_| !socket.error_told) {
                Some(error) => return Err(format!("the socket has the error {error}")),
                None => 0,
            },
            ("TCP_MAXSEG", Some(info)) => i64::from(info.snd_mss),
            ("SO_SNDBUF", _) => i64::from(socket.send_buffer),
            _ => socket.values.get(name).copied().unwrap_or(0),
        };
        let expected = call.arguments.get(3).and_then(Value::number).unwrap_or(0);
        if expected == value {
            return Ok(Returns(0));
        }
        Err(format!("{name} should be {expected}: {value}"))
    }
}

/// Tells the engine what has changed.
fn apply(testbed: &mut Testbed, socket: &Socket, is_name: &impl Fn(&str) -> bool) {
    let FlowOptions { no_delay, user_timeout_ms, keep_alive, .. } = socket.options;
    if let Some(flow) = socket.flow {
        // Errors: the flow is over, and the next call will say so.
        if is_name("TCP_CORK") {
            let _ = testbed.engine.set_cork(flow, socket.corked);
        } else if is_name("TCP_NODELAY") {
            let _ = testbed.engine.set_no_delay(flow, no_delay);
        } else if is_name("TCP_USER_TIMEOUT") {
            let _ = testbed.engine.set_user_timeout(flow, user_timeout_ms.map(NonZeroU32::get));
        } else if is_name("SO_KEEPALIVE") {
            let _ = testbed.engine.set_keep_alive(testbed.now, flow, keep_alive);
        }
    }
    if let Some(listener) = socket.listener {
        testbed.engine.set_listener_options(listener, socket.options);
    }
}
