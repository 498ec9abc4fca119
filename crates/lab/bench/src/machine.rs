//! When, where and of what a figure is: the day, the processor, the kernel, and the commit.

use std::process::Command;
use std::time::{Duration, SystemTime};

/// In a line.
pub(crate) fn here() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpu = model_in(&cpu).unwrap_or("a CPU of unknown model");
    format!("{}: {cpu}, Linux {}, {}", today(), kernel.trim(), commit())
}

/// Today's date, UTC.
fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "on an unknown day".to_owned())
}

fn model_in(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// The commit of the sources that this program was built from, as far as they can be asked.
fn commit() -> String {
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        let output = git.arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(words).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "a commit that is not known: the sources are elsewhere".to_owned();
    };
    let is_changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let seconds = git(&["show", "-s", "--format=%ct"]).and_then(|text| text.parse().ok());
    let committed = seconds.map(|since| SystemTime::UNIX_EPOCH + Duration::from_secs(since));
    let built = std::env::current_exe().and_then(|path| path.metadata()?.modified()).ok();
    let more = match (is_changed.as_deref(), committed.zip(built)) {
        (_, Some((committed, built))) if built < committed => ", built before it",
        (Some(""), _) => "",
        _ => ", with changes",
    };
    format!("commit {commit}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let text = "processor : 0\nmodel name\t: Fast 9000\nprocessor : 1\nmodel name : Slow\n";
        assert_eq!(model_in(text), Some("Fast 9000"));
        assert_eq!(model_in("Features: fp asimd\n"), None);
    }

    #[test]
    fn a_line_names_the_day_the_processor_and_a_commit() {
        let line = here();
        assert!(line.contains("Linux ") && line.contains("commit"), "{line}");
        let (date, _) = line.split_once(": ").expect("a date comes first");
        let digits = date.split('-').map(|part| part.parse::<u32>().is_ok_and(|part| part > 0));
        assert_eq!(digits.collect::<Vec<_>>(), [true; 3], "{line}");
    }
}
