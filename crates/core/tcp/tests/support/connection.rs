//! Connections as the rules begin with them.

use tcp::{Algorithm, CloseReason, Config, Event, FlowOptions};

use super::script::Script;

pub(crate) fn plain() -> Config {
    Config { timestamps: false, window_scaling: false, ..Config::default() }
}

pub(crate) fn new_reno() -> FlowOptions {
    FlowOptions { congestion: Algorithm::NewReno, ..FlowOptions::default() }
}

pub(crate) fn accepted() -> Script {
    Script::accepted(plain(), new_reno())
}

/// A connection whose client has agreed to timestamps (value 1 at its SYN) and nothing else.
pub(crate) fn with_timestamps() -> Script {
    let config = Config { window_scaling: false, sack: false, ..Config::default() };
    let mut script = Script::new(config, new_reno());
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1000,TS 1 0>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460,TS 100 1>"]);
    script.inject(". 1:1 ack 1 win 65535 <TS 2 100>");
    script.expect(&[]);
    script
}

pub(crate) fn closed(script: &mut Script) -> Option<CloseReason> {
    script.events().into_iter().find_map(|event| match event {
        Event::Closed { reason, .. } => Some(reason),
        _ => None,
    })
}
