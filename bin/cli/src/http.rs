//! What `calisto metrics` and `calisto web` have in common: an HTTP server for few clients, each of
//! which is bounded in what it may send and in how long it may stay.

mod impatient;
mod places;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use self::impatient::Impatient;
use self::places::{Places, Whose};
use crate::failure::Failure;
use crate::output;

/// Connections at once, at most; later ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;

/// Time that a client has to send the head of a request, and between two requests.
const HEAD_MAX: Duration = Duration::from_secs(5);

/// Time that a client has to take an answer, once it does not fit into the kernel's buffers.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The longest life of a connection: a client that asks every second opens a new one then.
const CONNECTION_MAX: Duration = Duration::from_secs(300);

/// Bytes of the head of a request, at most (hyper's least).
const HEAD_BYTES_MAX: usize = 8192;

/// Between two looks at whether the process is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The type of an answer in plain words.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// An answer, whole.
pub(crate) type Page = Response<Full<Bytes>>;

/// What is served.
pub(crate) trait Site: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Page> + Send;
}

/// Serves `site_at(address)` at `address` until Ctrl-C or SIGTERM; `paths` is what a person is
/// told of, after the address.
///
/// # Errors
///
/// The address cannot be had.
pub(crate) fn serve<S: Site>(
    address: SocketAddr,
    paths: &str,
    json: bool,
    site_at: impl FnOnce(SocketAddr) -> S,
) -> Result<(), Failure> {
    sys::signal::install_stop_handler().map_err(Failure::new)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| Failure::new(format!("cannot start to serve: {error}")))?;
    let served = runtime.block_on(listen(address, paths, json, site_at));
    // A question to a daemon that does not answer is not waited for.
    runtime.shutdown_background();
    served
}

async fn listen<S: Site>(
    address: SocketAddr,
    paths: &str,
    json: bool,
    site_at: impl FnOnce(SocketAddr) -> S,
) -> Result<(), Failure> {
    let cannot = |error| {
        Failure::new(format!(
            "cannot listen on {address}: {error}; choose another address with --listen"
        ))
    };
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    output::done(&format!("serving http://{address}{paths}"), json)?;
    let site = Arc::new(site_at(address));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let shares = Places::default();
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
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        // Who has its share is not answered.
        let Ok(to) = stream.local_addr() else { continue };
        let Some(share) = shares.take(Whose::of(from, to)) else { continue };
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            converse(stream, site).await;
            drop((place, share));
        });
    }
    Ok(())
}

async fn converse<S: Site>(stream: TcpStream, site: Arc<S>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Impatient::new(stream, ANSWER_MAX)), service);
    // How a client's connection ends is the client's affair.
    let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
}

/// An answer with a status, a type and a text.
pub(crate) fn page(status: StatusCode, kind: &'static str, text: &str) -> Page {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// That a method is not for this path; `allowed` are those that are.
pub(crate) fn refuse_method(allowed: &'static str) -> Page {
    let mut refusal = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, &format!("only {allowed}\n"));
    refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    refusal
}

/// That what is asked for cannot be had now, and why.
pub(crate) fn unavailable(why: &str) -> Page {
    page(StatusCode::SERVICE_UNAVAILABLE, TEXT, &format!("{why}\n"))
}
