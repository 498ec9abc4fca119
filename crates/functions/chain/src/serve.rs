//! A chain by its file: started, read again when asked to, and ended; and the program that is
//! nothing but that, for whoever has functions of their own.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sys::{regular_file, signal};

use crate::error::ChainError;
use crate::figures::Figures;
use crate::file::{ChainFile, FILE_BYTES_MAX, Kinds};
use crate::runner::{Chain, Event};

/// The folder of sockets of chains is what the first variable says, or `nf` in what the second
/// says, or in this one: as for `calisto nf`.
const VARIABLES: [&str; 2] = ["CALISTO_NF", "CALISTO_DIR"];
const FOLDER: &str = "/run/calisto";

/// A chain's file, and the folder that other files' names in it are relative to.
pub type Read = (ChainFile, PathBuf);

/// Runs the chain that `read` reads until `is_over` says so, and reads it again at each SIGHUP;
/// what is wrong then is told, and it goes on as before. What it has counted, and how it ended.
///
/// # Errors
/// It could not begin.
pub fn serve<E: fmt::Display + From<ChainError>>(
    read: impl Fn() -> Result<Read, E>,
    sockets: &Path,
    is_over: impl Fn() -> bool,
    tell: &mut dyn FnMut(Event),
) -> Result<(Figures, Result<(), ChainError>), E> {
    let (file, folder) = read()?;
    let mut chain = Chain::start(&file, &folder, sockets, tell)?;
    let ended = loop {
        let ended = chain.run_until(&is_over, signal::reload_requested, tell);
        if ended.is_err() || is_over() || !signal::take_reload_request() {
            break ended;
        }
        let refused = match read() {
            Ok((file, folder)) => match chain.reload(&file, &folder, tell) {
                Ok(()) => continue,
                Err(ended @ ChainError::Ended { .. }) => break Err(ended),
                Err(refused) => refused.to_string(),
            },
            Err(refused) => refused.to_string(),
        };
        tell(Event::Note(format!("the chain stays as it was: {refused}")));
    };
    // The chain ends with this call, and its ports and its socket are given back.
    Ok((chain.figures(), ended))
}

/// A whole program: `PROGRAM FILE` runs the chain of that file, whose functions may be of these
/// kinds too, until Ctrl-C or SIGTERM, and reads it again at SIGHUP; `PROGRAM --check FILE` only
/// says whether it is right. `calisto nf stats` and `calisto nf show` ask it as they ask
/// `calisto nf run`. What happens is said on standard error.
pub fn program(kinds: &Kinds) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let said = match &words[..] {
        [check, file] if check == "--check" => checked(Path::new(file), kinds),
        [file] if !file.as_encoded_bytes().starts_with(b"-") => run(Path::new(file), kinds),
        _ => {
            eprintln!("usage: PROGRAM [--check] FILE");
            return ExitCode::from(2);
        }
    };
    match said {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &Path, kinds: &Kinds) -> Result<(), ChainError> {
    signal::install_stop_handler()?;
    signal::install_reload_handler()?;
    let said = |name| std::env::var_os(name).filter(|folder| !folder.is_empty());
    let [sockets, folder] = VARIABLES.map(|name| said(name).map(PathBuf::from));
    let of_all = || folder.unwrap_or_else(|| FOLDER.into()).join("nf");
    let sockets = sockets.unwrap_or_else(of_all);
    let tell = &mut |event: Event| match event {
        Event::Reading { .. } => {}
        event => eprintln!("{event}"),
    };
    let (_, ended) = serve(|| read(path, kinds), &sockets, signal::stop_requested, tell)?;
    ended
}

fn checked(path: &Path, kinds: &Kinds) -> Result<(), ChainError> {
    let (file, folder) = read(path, kinds)?;
    crate::check(&file, &folder)?;
    crate::check_here(&file)
}

/// Reads a chain's file whose functions may be of these kinds, too.
///
/// # Errors
/// It cannot be read, or something is wrong in it.
pub fn read(path: &Path, kinds: &Kinds) -> Result<Read, ChainError> {
    let shown = path.display().to_string();
    let text = regular_file::read_text(path, FILE_BYTES_MAX as u64)
        .map_err(|error| ChainError::Unreadable { path: shown.clone(), why: error.to_string() })?;
    let file = ChainFile::parse_with(&text, &shown, kinds)?;
    Ok((file, path.parent().unwrap_or(Path::new("")).to_owned()))
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reading { bytes, of } => {
                write!(f, "reading routes: {} %", 100 * bytes / (*of).max(1))
            }
            Self::Loaded { routes, ipv4, ipv6, took } => write!(
                f,
                "routes of {routes}: {ipv4} of IPv4, {ipv6} of IPv6, in {:.2} s",
                took.as_secs_f64()
            ),
            Self::Reloaded { functions } => {
                write!(f, "read again: {functions} functions are in force")
            }
            Self::Note(sentence) => write!(f, "note: {sentence}"),
            Self::Forwarding { ports, slices } => {
                let threads = if *slices == 1 { "one thread" } else { "a thread for each slice" };
                write!(f, "forwarding between {ports} ({threads}); Ctrl-C ends it")
            }
        }
    }
}
