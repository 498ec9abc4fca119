//! What events are about.

/// The targets of events: `[log]` has a key for each.
pub(crate) const DAEMON: &str = "daemon";
pub(crate) const ADMIN: &str = "admin";
pub(crate) const CONFIG: &str = "config";
pub(crate) const PORTS: &str = "ports";
pub(crate) const WORKERS: &str = "workers";
pub(crate) const APPS: &str = "apps";
pub(crate) const SOCKETS: &str = "sockets";

/// The name of an event of which the caller itself bounds how often it comes.
pub(crate) const BOUNDED: &str = "bounded";
