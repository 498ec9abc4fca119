//! Serves metrics over HTTP. One scrape at a time asks the daemon, and a connection that says
//! nothing, or too much, is closed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::{Format, Scrape};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};

use super::ask;
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;

/// Connections at once, at most; whoever comes then waits in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;

/// A client has so long to send the head of a request, and so long between two requests.
const HEAD_MAX: Duration = Duration::from_secs(5);

/// A connection lives so long, at most: whoever scrapes every second makes a new one then.
const CONNECTION_MAX: Duration = Duration::from_secs(300);

/// Bytes of the head of a request, at most (hyper's least).
const HEAD_BYTES_MAX: usize = 8192;

/// Between two looks at whether somebody wants us to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why what is served cannot be had.
const TEXT: &str = "text/plain; charset=utf-8";

/// Serves at `address` until Ctrl-C or SIGTERM.
pub(super) fn serve(address: SocketAddr, daemon: Daemon, json: bool) -> Result<(), Failure> {
    sys::signal::install_stop_handler().map_err(Failure::new)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| Failure::new(format!("cannot start to serve: {error}")))?;
    let served = runtime.block_on(listen(address, daemon, json));
    // Whoever asks a daemon that does not answer is not waited for.
    runtime.shutdown_background();
    served
}

async fn listen(address: SocketAddr, daemon: Daemon, json: bool) -> Result<(), Failure> {
    let cannot = |error| {
        Failure::new(format!(
            "cannot listen on {address}: {error}; choose another address with --listen"
        ))
    };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    output::done(&format!("serving http://{address}/metrics, /healthz and /readyz"), json)?;
    let pages = Arc::new(Pages { daemon: Mutex::new(daemon) });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while !sys::signal::stop_requested() {
        let Ok(Ok(place)) =
            tokio::time::timeout(LOOK_EVERY, Arc::clone(&places).acquire_owned()).await
        else {
            continue;
        };
        // An error is one client's that left early, or a lack of descriptors that passes.
        let Ok(accepted) = tokio::time::timeout(LOOK_EVERY, listener.accept()).await else {
            continue;
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            converse(stream, pages).await;
            drop(place);
        });
    }
    Ok(())
}

async fn converse(stream: TcpStream, pages: Arc<Pages>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(pages.answer(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // How a client's connection ends is the client's affair.
    let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
}

/// What can be read.
struct Pages {
    /// Asked by one client at a time: the admin socket has few places.
    daemon: Mutex<Daemon>,
}

impl Pages {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut refusal = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
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

    /// That the daemon is down is a metric too, and no failure of ours.
    async fn metrics(&self, format: Format) -> Response<Full<Bytes>> {
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

fn unavailable(why: &str) -> Response<Full<Bytes>> {
    page(StatusCode::SERVICE_UNAVAILABLE, TEXT, &format!("{why}\n"))
}

fn page(status: StatusCode, kind: &'static str, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
