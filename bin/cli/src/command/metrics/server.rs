//! Serves metrics over HTTP. One scrape at a time asks the daemon.

use std::net::SocketAddr;

use hyper::body::Incoming;
use hyper::header::ACCEPT;
use hyper::{Method, Request, StatusCode};
use metrics::{Format, Scrape};
use tokio::sync::Mutex;

use super::ask;
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::http::{self, Page, Site, TEXT, page, unavailable};

/// Serves at `address` until Ctrl-C or SIGTERM.
pub(super) fn serve(address: SocketAddr, daemon: Daemon, json: bool) -> Result<(), Failure> {
    http::serve(address, "/metrics, /healthz and /readyz", json, |_| Pages {
        daemon: Mutex::new(daemon),
    })
}

/// What can be read.
struct Pages {
    /// Asked by one client at a time: the admin socket has few places.
    daemon: Mutex<Daemon>,
}

impl Site for Pages {
    async fn answer(&self, request: Request<Incoming>) -> Page {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return http::refuse_method("GET, HEAD");
        }
        match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
                self.metrics(Format::accepted(accept.unwrap_or_default())).await
            }
            "/healthz" => match self.scrape().await {
                Ok(_) => page(StatusCode::OK, TEXT, "the daemon answers\n"),
                Err(failure) => unavailable(&failure.to_string()),
            },
            "/readyz" => match self.scrape().await.map(|scrape| metrics::obstacles(&scrape)) {
                Ok(obstacles) if obstacles.is_empty() => page(StatusCode::OK, TEXT, "ready\n"),
                Ok(obstacles) => unavailable(&obstacles.join("\n")),
                Err(failure) => unavailable(&failure.to_string()),
            },
            _ => page(StatusCode::NOT_FOUND, TEXT, "there are /metrics, /healthz and /readyz\n"),
        }
    }
}

impl Pages {
    /// That the daemon is down is a metric too, and no failure of ours.
    async fn metrics(&self, format: Format) -> Page {
        let families = match self.scrape().await {
            Ok(scrape) => metrics::families(&scrape),
            Err(failure) => {
                eprintln!("calisto: {failure}");
                metrics::down()
            }
        };
        page(StatusCode::OK, format.content_type(), &metrics::render(families, format))
    }

    async fn scrape(&self) -> Result<Scrape, Failure> {
        let daemon = self.daemon.lock().await;
        let asked = daemon.clone();
        let asking = tokio::task::spawn_blocking(move || ask::scrape(&asked));
        asking.await.unwrap_or_else(|error| Err(Failure::new(error)))
    }
}
