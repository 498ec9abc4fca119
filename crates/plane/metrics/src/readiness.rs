//! What keeps the daemon from serving.

use crate::scrape::Scrape;

/// Everything that keeps the daemon from serving, as sentences; empty: it is ready.
pub fn obstacles(scrape: &Scrape) -> Vec<String> {
    let status = &scrape.status;
    let mut obstacles: Vec<String> = status
        .ports
        .iter()
        .filter_map(|port| Some((&port.port, port.fault.as_ref()?)))
        .map(|(port, fault)| format!("port {port} moves nothing: {fault}"))
        .collect();
    if let Some(left_ms) = status.draining_ms {
        obstacles.push(format!("the daemon is ending, within {left_ms} ms"));
    }
    if !status.workers.iter().any(|worker| worker.state == "active") {
        obstacles.push("no worker is active".to_owned());
    }
    if status.frames_free == 0 {
        obstacles.push("no frame is free: nothing can be received".to_owned());
    }
    obstacles
}
