//! A replay of a file: open it, play it, show how far it is.

use std::fs::File;
use std::io::BufReader;

use crate::progress::Progress;
use crate::{Args, Error, Report, play};

/// Bytes read at a time: few system calls, and little memory.
const BUFFER_BYTES: usize = 256 << 10;

/// Plays the file that `args` names. With `json`, nothing but the report is for the caller to
/// print, so progress is not shown. SIGINT and SIGTERM end the replay and not the report, if
/// [`sys::signal::install_stop_handler`] was called before.
///
/// # Errors
/// As [`play`], and a file that cannot be opened.
pub fn run(args: &Args, json: bool) -> Result<Report, Error> {
    let options = args.options();
    options.check()?;
    let path = args.file.display().to_string();
    let in_file = |reason: String| Error::File { path: path.clone(), reason };
    let cannot_open = |error: std::io::Error| in_file(format!("cannot open it: {error}"));
    let file = File::open(&args.file).map_err(cannot_open)?;
    let metadata = file.metadata().map_err(cannot_open)?;
    if metadata.is_dir() {
        return Err(in_file("it is a directory: name a capture file".to_owned()));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    let mut progress = (!json).then(|| Progress::new(bytes));
    let report = play(BufReader::with_capacity(BUFFER_BYTES, file), bytes, &options, |seen| {
        if let Some(progress) = &mut progress {
            progress.show(seen);
        }
        !sys::signal::stop_requested()
    });
    if let Some(progress) = &progress {
        progress.clear();
    }
    match report {
        Ok(mut report) => {
            report.setup.file = path;
            Ok(report)
        }
        Err(Error::Failed(reason)) => Err(in_file(reason)),
        Err(error) => Err(error),
    }
}
