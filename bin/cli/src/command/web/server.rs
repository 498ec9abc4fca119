//! Serves the page, what it shows, and the changes that it may ask for.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use tokio::sync::Mutex;

use super::change::Change;
use super::look::Setting;
use super::token::Token;
use super::{address, look};
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::http::{self, Page, Site, TEXT, page, unavailable};

/// Bytes of a change, at most.
const BODY_BYTES_MAX: usize = 4096;

/// A wrong token is answered after this time. Meanwhile it has one of the few places for
/// connections, so that tokens, which are not short, are not tried fast; and keeps nobody with the
/// right one waiting.
const AFTER_A_WRONG_TOKEN: Duration = Duration::from_secs(1);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";

/// The page is alone: no other host, no inline script, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; form-action 'none'; frame-ancestors 'none'; \
                      base-uri 'none'";

/// Serves at `address` until Ctrl-C or SIGTERM.
pub(super) fn serve(
    address: SocketAddr,
    daemon: Daemon,
    token: Option<Token>,
    every: Duration,
    json: bool,
) -> Result<(), Failure> {
    let setting = Setting { began: Instant::now(), every, may_change: token.is_some() };
    let site = Web { daemon, setting, last: Mutex::new(None), token };
    http::serve(address, "/", json, |_| site)
}

/// The page and what it asks for.
struct Web {
    daemon: Daemon,
    setting: Setting,
    /// The last look and when it was: pages that ask sooner than is set share it.
    last: Mutex<Option<(Instant, String)>>,
    /// Without one, nothing can be changed.
    token: Option<Token>,
}

impl Site for Web {
    async fn answer(&self, request: Request<Incoming>) -> Page {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(address::is_own) {
            let why = "this page answers to localhost and loopback addresses only\n";
            return page(StatusCode::MISDIRECTED_REQUEST, TEXT, why);
        }
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let is_post = *request.method() == Method::POST;
        let mut answer = match request.uri().path() {
            "/change" if is_post => self.change(request).await,
            "/change" => http::refuse_method("POST"),
            _ if !is_read => http::refuse_method("GET, HEAD"),
            "/" => page(StatusCode::OK, HTML, include_str!("page.html")),
            "/page.css" => page(StatusCode::OK, CSS, include_str!("page.css")),
            "/page.js" => page(StatusCode::OK, SCRIPT, include_str!("page.js")),
            "/look" => self.look().await,
            _ => page(StatusCode::NOT_FOUND, TEXT, "there are / and /look\n"),
        };
        let headers = answer.headers_mut();
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        answer
    }
}

impl Web {
    async fn look(&self) -> Page {
        let mut last = self.last.lock().await;
        if let Some((at, look)) = &*last
            && at.elapsed() < self.setting.every
        {
            return page(StatusCode::OK, JSON, look);
        }
        let (daemon, setting) = (self.daemon.clone(), self.setting);
        let looking = tokio::task::spawn_blocking(move || look::look(&daemon, setting));
        match looking.await.unwrap_or_else(|error| Err(Failure::new(error))) {
            Ok(look) => {
                let (_, look) = last.insert((Instant::now(), look.to_string()));
                page(StatusCode::OK, JSON, look)
            }
            Err(failure) => unavailable(&failure.to_string()),
        }
    }

    async fn change(&self, request: Request<Incoming>) -> Page {
        let Some(token) = &self.token else {
            let why = "nothing can be changed here: start `calisto web` with --token-file\n";
            return page(StatusCode::FORBIDDEN, TEXT, why);
        };
        let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if !given.is_some_and(|given| token.is_in(given)) {
            tokio::time::sleep(AFTER_A_WRONG_TOKEN).await;
            return page(StatusCode::UNAUTHORIZED, TEXT, "that is not the token\n");
        }
        let body = match Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return bad(&format!("the change cannot be read: {error}")),
        };
        let change: Change = match serde_json::from_slice(&body) {
            Ok(change) => change,
            Err(error) => return bad(&format!("the change cannot be read: {error}")),
        };
        let daemon = self.daemon.clone();
        let telling = tokio::task::spawn_blocking(move || daemon.tell(change.into()));
        match telling.await.unwrap_or_else(|error| Err(Failure::new(error))) {
            Ok(()) => {
                // The next look shows it.
                *self.last.lock().await = None;
                page(StatusCode::OK, TEXT, "done\n")
            }
            Err(failure) => bad(&failure.to_string()),
        }
    }
}

fn bad(why: &str) -> Page {
    page(StatusCode::BAD_REQUEST, TEXT, &format!("{why}\n"))
}
