//! The environment of a new program: it keeps the variables that have it served, whatever
//! environment the old one has made up for it.
//!
//! Nothing here takes memory: a child of vfork calls these while its parent waits.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use libc::c_char;

use crate::process::ticket;

/// The variable that has this library loaded.
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// What the variables of ours begin with.
const OURS: &[u8] = b"CALISTO_";

/// The variables as they were when this program began, ready to be given on.
static KEPT: OnceLock<Vec<Kept>> = OnceLock::new();

/// One of them: `NAME=value`.
struct Kept(*const c_char);

// SAFETY: it points to text that is never changed or freed.
unsafe impl Send for Kept {}
// SAFETY: likewise.
unsafe impl Sync for Kept {}

unsafe extern "C" {
    static mut environ: *mut *const c_char;
}

/// The program's own environment, as it is now.
pub(crate) fn own() -> *const *const c_char {
    // SAFETY: libc's own variable; a program that changes it while another thread starts a program
    // races with libc's own functions too.
    unsafe { environ.cast_const() }
}

/// Pointers of an environment, at most; a longer one is given on as it is.
const ROOM: usize = 2048;

/// An environment for a new program.
pub(crate) struct Environment {
    original: *const *const c_char,
    /// Used when something had to be added.
    added: Option<[*const c_char; ROOM]>,
}

/// Keeps a copy of what a later program will need, and takes the ticket out of this one's
/// variables.
pub(crate) fn remember_environment() {
    // SAFETY: the loader has set it, and no other thread runs yet.
    unsafe { take_ticket(environ) };
    // SAFETY: likewise.
    let variables = unsafe { variables(environ.cast_const()) };
    let kept = variables.filter(|text| text.starts_with(PRELOAD) || text.starts_with(OURS));
    let copies = kept.filter_map(|text| {
        let copy = CString::new(text).ok()?;
        Some(Kept(Box::leak(copy.into_boxed_c_str()).as_ptr()))
    });
    // Set once: this runs once, before the program.
    let _ = KEPT.set(copies.collect());
}

/// Removes every ticket from a list of variables; the first is kept for this program's attachment.
///
/// # Safety
/// A list of texts that ends with a null pointer, which nobody else uses; or null.
unsafe fn take_ticket(list: *mut *const c_char) {
    let (mut from, mut to) = (list, list);
    let mut is_first = true;
    while !from.is_null() {
        // SAFETY: the caller's promise: up to the null pointer every element is there, and `to` is
        // never beyond `from`.
        let text = unsafe { *from };
        // SAFETY: the elements are texts.
        let ticket = (!text.is_null())
            .then(|| unsafe { CStr::from_ptr(text) }.to_bytes().strip_prefix(ticket::VARIABLE))
            .flatten();
        match ticket {
            Some(value) if is_first => {
                ticket::came(value);
                is_first = false;
            }
            Some(_) => {}
            None => {
                // SAFETY: as above.
                unsafe { *to = text };
                // SAFETY: as above; it is not used beyond the null pointer.
                to = unsafe { to.add(1) };
            }
        }
        if text.is_null() {
            return;
        }
        // SAFETY: as above.
        from = unsafe { from.add(1) };
    }
}

/// The texts of a list that ends with a null pointer.
unsafe fn variables<'a>(list: *const *const c_char) -> impl Iterator<Item = &'a [u8]> {
    let mut next = list;
    std::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: the caller's promise: before the null pointer every element is there.
        let text = unsafe { *next };
        if text.is_null() {
            return None;
        }
        // SAFETY: not beyond the null pointer.
        next = unsafe { next.add(1) };
        // SAFETY: the elements are texts.
        Some(unsafe { CStr::from_ptr(text) }.to_bytes())
    })
}

fn name_of(variable: &[u8]) -> &[u8] {
    let end = variable.iter().position(|&byte| byte == b'=');
    end.map_or(variable, |end| &variable[..end])
}

impl Environment {
    /// The environment with those of our variables that it does not set, and with `ticket`, unless
    /// that is null, as the only ticket. A program that sets LD_PRELOAD itself, to nothing even, is
    /// taken at its word.
    ///
    /// # Safety
    /// A list of texts that ends with a null pointer, or null.
    pub(crate) unsafe fn keeping(list: *const *const c_char, ticket: *const c_char) -> Self {
        let original = Self { original: list, added: None };
        let kept = KEPT.get().map_or(&[][..], Vec::as_slice);
        if list.is_null() {
            return original;
        }
        // SAFETY: the caller's promise.
        let count = unsafe { variables(list) }.count();
        // SAFETY: texts that live for ever.
        let text = |kept: &Kept| unsafe { CStr::from_ptr(kept.0) }.to_bytes();
        let is_missing = |wanted: &&Kept| {
            let name = name_of(text(wanted));
            // SAFETY: the caller's promise.
            !unsafe { variables(list) }.any(|variable| name_of(variable) == name)
        };
        let missing = kept.iter().filter(is_missing).count();
        // SAFETY: the caller's promise.
        let has_stale = unsafe { variables(list) }.any(|text| text.starts_with(ticket::VARIABLE));
        let is_right = missing == 0 && ticket.is_null() && !has_stale;
        if is_right || count + missing + 1 >= ROOM {
            return original;
        }
        let mut room = [std::ptr::null(); ROOM];
        let mut next = room.iter_mut();
        let mut add = |text: *const c_char| {
            if let Some(place) = next.next() {
                *place = text;
            }
        };
        for index in 0..count {
            // SAFETY: there are that many.
            let variable = unsafe { *list.add(index) };
            // SAFETY: the elements are texts.
            if !unsafe { CStr::from_ptr(variable) }.to_bytes().starts_with(ticket::VARIABLE) {
                add(variable);
            }
        }
        kept.iter().filter(is_missing).for_each(|wanted| add(wanted.0));
        add(ticket);
        Self { original: list, added: Some(room) }
    }

    /// For the function that takes it; it lives as long as this value.
    pub(crate) fn as_ptr(&self) -> *const *const c_char {
        self.added.as_ref().map_or(self.original, |added| added.as_ptr())
    }
}
