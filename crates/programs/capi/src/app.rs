//! Attaching, detaching, and what went wrong.

use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;
use std::time::Duration;

use calisto_client::{App, AttachOptions};

use crate::failure::{self, Failure, call};
use crate::session::text;
use crate::worker::CalistoWorker;

/// Addresses that an application may ask for, at most: more is a mistake.
const LISTEN_MAX: usize = 64;

/// What an application asks for. Set all of it to zero first: zero means the default.
#[repr(C)]
#[derive(Debug)]
pub struct CalistoOptions {
    /// The daemon's socket; null: what the environment variable CALISTO_APPS says, or else
    /// /run/calisto/apps.sock.
    pub socket: *const c_char,
    /// What people call the application: 1 to 32 letters, digits, '-', '_' and '.'.
    pub name: *const c_char,
    /// Whose packets it wants: `listen_count` texts such as "udp:10.0.0.2:53".
    pub listen: *const *const c_char,
    /// How many texts `listen` has, 64 at most.
    pub listen_count: u32,
    /// Workers, one for each thread that is to work: 1 to 64; 0: one.
    pub workers: u32,
    /// Buffers for received packets, all workers together; 0: the daemon's default.
    pub frames: u32,
    /// Bytes of a buffer, 2048 or 4096; 0: the daemon's default.
    pub frame_bytes: u32,
    /// How long to go on trying while there is no daemon, in nanoseconds.
    pub wait_ns: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// A port of the daemon.
#[repr(C)]
#[derive(Debug)]
pub struct CalistoPort {
    /// Its name, good until calisto_detach.
    pub name: *const c_char,
    /// Bytes of the largest IP packet that it takes.
    pub mtu: u32,
    /// Its Ethernet address, if `has_mac` is not zero.
    pub mac: [u8; 6],
    /// Whether it has one.
    pub has_mac: u8,
    /// Zero.
    pub reserved: u8,
}

/// An attached application.
#[derive(Debug)]
pub struct CalistoApp {
    app: App,
    port_names: Vec<CString>,
    workers: Vec<CalistoWorker>,
}

/// Attaches to the daemon and stores the application in `*app`. Returns 0, or a negative number
/// (then `*app` is null and calisto_error(NULL) says why).
///
/// # Safety
/// `options` and what it points to can be read, and `app` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_attach(
    options: *const CalistoOptions,
    app: *mut *mut CalistoApp,
) -> c_int {
    call(|| {
        if app.is_null() {
            return Err(Failure::invalid("calisto_attach: `app` is null"));
        }
        // SAFETY: the caller says that it can be written.
        unsafe { app.write(std::ptr::null_mut()) };
        // SAFETY: the caller says that it can be read, if it is not null.
        let options = unsafe { options.as_ref() };
        let options =
            options.ok_or_else(|| Failure::invalid("calisto_attach: `options` is null"))?;
        // SAFETY: the caller says so of what it points to as well.
        let options = unsafe { read(options) }?;
        let attached = attach(&options)?;
        // SAFETY: as above.
        unsafe { app.write(Box::into_raw(Box::new(attached))) };
        Ok(0)
    })
}

fn attach(options: &AttachOptions) -> Result<CalistoApp, Failure> {
    let (app, workers) = App::attach(options)?;
    let name = |port: &calisto_client::PortInfo| CString::new(port.port.replace('\0', "")).ok();
    let port_names = app.ports().iter().filter_map(name).collect();
    let number = |(index, worker)| CalistoWorker::new(worker, index as u32);
    let workers = workers.into_iter().enumerate().map(number).collect();
    Ok(CalistoApp { app, port_names, workers })
}

/// # Safety
/// What `options` points to can be read.
unsafe fn read(options: &CalistoOptions) -> Result<AttachOptions, Failure> {
    if options.reserved != [0; 4] {
        return Err(Failure::invalid("calisto_attach: set the reserved fields to zero"));
    }
    // SAFETY: as the caller says.
    let name = unsafe { text(options.name) }?
        .ok_or_else(|| Failure::invalid("calisto_attach: `name` is null"))?;
    let mut asked = AttachOptions::new(name).workers(options.workers.max(1));
    // SAFETY: as the caller says.
    if let Some(socket) = unsafe { text(options.socket) }? {
        asked = asked.socket(PathBuf::from(socket));
    }
    let count = options.listen_count as usize;
    if count > LISTEN_MAX || (count > 0 && options.listen.is_null()) {
        return Err(Failure::invalid("calisto_attach: `listen` has 64 addresses at most"));
    }
    for index in 0..count {
        // SAFETY: the caller says that there are `listen_count` of them.
        let address = unsafe { text(options.listen.add(index).read()) }?;
        let missing = || Failure::invalid("calisto_attach: an address of `listen` is null");
        asked = asked.listen(address.ok_or_else(missing)?);
    }
    if options.frames > 0 {
        asked = asked.frames(options.frames);
    }
    if options.frame_bytes > 0 {
        asked = asked.frame_bytes(options.frame_bytes);
    }
    Ok(asked.wait(Duration::from_nanos(options.wait_ns)))
}

/// Worker `n` of the application, from 0; null when there is none. It is good until calisto_detach,
/// and each worker is for one thread at a time.
///
/// # Safety
/// `app` came from calisto_attach and was not detached, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_worker(app: *const CalistoApp, n: u32) -> *mut CalistoWorker {
    // SAFETY: the caller says so; it is only shared from here on.
    let app = unsafe { app.as_ref() };
    let worker = app.and_then(|app| app.workers.get(n as usize));
    // It is only ever read as shared; what changes in it is behind `busy`.
    worker.map_or(std::ptr::null_mut(), |worker| std::ptr::from_ref(worker).cast_mut())
}

/// Stores what is known of port `n` in `*port`. Returns 0, or CALISTO_INVALID when there is none.
///
/// # Safety
/// As for calisto_worker, and `port` can be written or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_port(
    app: *const CalistoApp,
    n: u32,
    port: *mut CalistoPort,
) -> c_int {
    call(|| {
        // SAFETY: the caller says so.
        let app = unsafe { app.as_ref() };
        let found = app.and_then(|app| {
            Some((app.app.ports().get(n as usize)?, app.port_names.get(n as usize)?))
        });
        let Some((info, name)) = found.filter(|_| !port.is_null()) else {
            return Err(Failure::invalid("calisto_port: null, or no such port"));
        };
        let content = CalistoPort {
            name: name.as_ptr(),
            mtu: info.mtu,
            mac: info.mac.unwrap_or_default(),
            has_mac: u8::from(info.mac.is_some()),
            reserved: 0,
        };
        // SAFETY: the caller says that it can be written.
        unsafe { port.write(content) };
        Ok(0)
    })
}

/// Why the attachment has ended, if it has; else why the last call that failed in this thread did.
/// Empty when nothing did. The text is good until the next call of this library in this thread.
///
/// # Safety
/// As for calisto_worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_error(app: *const CalistoApp) -> *const c_char {
    call(|| {
        // SAFETY: the caller says so.
        if let Some(detached) = unsafe { app.as_ref() }.and_then(|app| app.app.detached_reason()) {
            failure::keep(&detached.to_string());
        }
        Ok(0)
    });
    failure::last()
}

/// Ends the attachment and frees the application and its workers; packets that were not sent are
/// lost. No other thread may be in a call for it, and nothing of it may be used afterwards. Null
/// does nothing.
///
/// # Safety
/// As for calisto_worker, and as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calisto_detach(app: *mut CalistoApp) {
    call(|| {
        if !app.is_null() {
            // SAFETY: calisto_attach made it a box, and the caller gives up every use of it.
            let CalistoApp { app, workers, .. } = *unsafe { Box::from_raw(app) };
            app.detach();
            drop(workers);
        }
        Ok(0)
    });
}
