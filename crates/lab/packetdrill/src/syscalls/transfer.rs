//! Calls that move bytes.

use super::{Blocks, Calls, Fails, Outcome, Returns};
use crate::script::{Call, Value};
use crate::testbed::Testbed;

/// Bytes that a call is about, and whether its buffer can be.
fn bytes_of(call: &Call) -> (i64, bool) {
    match call.name.as_str() {
        "sendmsg" | "recvmsg" => {
            let vector = call.arguments.get(1).and_then(|message| message.field("msg_iov"));
            let Some(Value::List(pieces)) = vector else { return (0, true) };
            let piece_bytes = |piece: &Value| piece.field("1").and_then(Value::number);
            (pieces.iter().filter_map(piece_bytes).sum(), true)
        }
        _ => {
            let bytes = call.arguments.get(2).and_then(Value::number).unwrap_or(0);
            (bytes, call.arguments.get(1) != Some(&Value::Null))
        }
    }
}

impl Calls {
    pub(super) fn write(
        &mut self,
        testbed: &mut Testbed,
        number: i64,
        call: &Call,
        moved: &mut i64,
    ) -> Result<Outcome, String> {
        let (bytes, is_buffer) = bytes_of(call);
        let flags = match call.name.as_str() {
            "sendmsg" => call.arguments.get(2),
            _ => call.arguments.get(3),
        };
        let has = |flag| flags.is_some_and(|flags: &Value| flags.has_word(flag));
        if has("MSG_EOR") {
            return Err("MSG_EOR has no counterpart in the engine".into());
        }
        let socket = self.socket(number)?;
        if socket.shut_write || (socket.ended.is_some() && socket.error_told) {
            return Ok(Fails("EPIPE"));
        }
        if let Some(error) = socket.error() {
            socket.error_told = true;
            return Ok(Fails(if error == "ECONNABORTED" { "EPIPE" } else { error }));
        }
        let Some(flow) = socket.flow else { return Ok(Fails("EPIPE")) };
        if !is_buffer {
            return Ok(Fails("EFAULT"));
        }
        if !socket.is_connected {
            return Ok(if socket.is_nonblocking { Fails("EAGAIN") } else { Blocks });
        }
        if socket.wants_room && !socket.is_nonblocking && *moved > 0 {
            // Linux sleeps until a good part of the buffer is free.
            return Ok(Blocks);
        }
        let (more, urgent) = (has("MSG_MORE"), has("MSG_OOB"));
        let rest = u32::try_from(bytes - *moved).unwrap_or(0);
        // An error: the flow is over, and the next call will say so.
        let _ = testbed.engine.set_more(flow, more);
        let taken = socket.write(testbed, rest);
        if urgent && taken == rest && taken > 0 {
            let _ = testbed.engine.mark_urgent(flow);
        }
        *moved += i64::from(taken);
        Ok(if *moved == bytes {
            Returns(bytes)
        } else if !socket.is_nonblocking {
            Blocks
        } else if *moved > 0 {
            Returns(*moved)
        } else {
            Fails("EAGAIN")
        })
    }

    pub(super) fn read(
        &mut self,
        testbed: &mut Testbed,
        number: i64,
        call: &Call,
    ) -> Result<Outcome, String> {
        let (bytes, is_buffer) = bytes_of(call);
        let has = |flag| call.arguments.last().is_some_and(|flags| flags.has_word(flag));
        let socket = self.socket(number)?;
        let Some(flow) = socket.flow else { return Ok(Fails("ENOTCONN")) };
        if has("MSG_OOB") {
            let is_there = testbed.engine.urgent(flow).is_some();
            return Ok(if is_there { Returns(1) } else { Fails("EINVAL") });
        }
        let unread = testbed.engine.readable(flow).bytes;
        if unread > 0 && !is_buffer {
            return Ok(Fails("EFAULT"));
        }
        // A read ends before the urgent byte.
        let limit = u32::try_from(bytes).unwrap_or(0);
        let limit = match testbed.engine.urgent(flow) {
            Some(ahead) if ahead > 0 => limit.min(ahead),
            _ => limit,
        };
        let count = testbed.read(flow, 1 + socket.read, limit)?;
        socket.read += count;
        if count > 0 {
            let wanted = call.arguments.get(1).and_then(|message| message.field("msg_control"));
            check_control(testbed, flow, wanted)?;
            return Ok(Returns(count.into()));
        }
        if let Some(error) = socket.error().filter(|_| !socket.error_told) {
            socket.error_told = true;
            return Ok(Fails(error));
        }
        let is_over = socket.shut_read || socket.ended.is_some() || testbed.engine.is_at_end(flow);
        Ok(match (is_over, socket.is_nonblocking) {
            (true, _) => Returns(0),
            (false, true) => Fails("EAGAIN"),
            (false, false) => Blocks,
        })
    }
}

/// Control messages that came with what was read: how much more there is (TCP_CM_INQ).
fn check_control(
    testbed: &Testbed,
    flow: tcp::FlowId,
    wanted: Option<&Value>,
) -> Result<(), String> {
    let Some(Value::List(messages)) = wanted else { return Ok(()) };
    for message in messages {
        let is_count = message.field("cmsg_type").is_some_and(|kind| kind.has_word("TCP_CM_INQ"));
        if !is_count {
            return Err("only TCP_CM_INQ is known of control messages".into());
        }
        let unread = testbed.engine.readable(flow).bytes;
        let is_closed = testbed.engine.is_at_end(flow);
        let count = i64::from(unread) + i64::from(unread == 0 && is_closed);
        let expected = message.field("cmsg_data").and_then(Value::number).unwrap_or(0);
        if expected != count {
            return Err(format!("{expected} should be left to read: {count}"));
        }
    }
    Ok(())
}
