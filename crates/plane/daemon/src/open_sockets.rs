//! Which sockets any process of this host still has open: asked of a process of its own.
//!
//! Looking at the descriptors of other processes takes the strongest right that there is
//! (`CAP_SYS_PTRACE`: who has it may take and read everything of everybody). No thread that reads
//! what programs or strangers wrote has it. One child of the daemon has, made before anybody could
//! attach; it is asked through a pipe, hears nothing else, and ends when the pipe closes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};
use sys::signal_fd::SignalFd;

use crate::confinement::{self, Role};

/// The argument with which this program is started again as the process that looks.
pub(crate) const ARGUMENT: &str = "--look-for-open-sockets";

/// A question is this byte; an answer is a count and so many cookies, each eight bytes.
const QUESTION: u8 = b'?';

/// More open sockets than a host can have, so that a wrong count takes no memory.
const COOKIES_MAX: u64 = 1 << 26;

/// Who knows which sockets are open.
pub(crate) enum OpenSockets {
    /// This thread looks for itself, by its own rights.
    Here,
    /// The process that may look.
    Process { child: Child, questions: ChildStdin, answers: ChildStdout },
}

impl OpenSockets {
    /// Starts `program` as the process that looks.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start(program: PathBuf) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A key that ends the daemon does not end it first.
            .process_group(0)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (questions, answers) = pipes.ok_or(ErrorKind::BrokenPipe)?;
        Ok(Self::Process { child, questions, answers })
    }

    /// The cookies of all sockets that any process has open.
    ///
    /// # Errors
    /// The process that looks has ended. Then nothing is known, and nothing may be taken for
    /// closed.
    pub(crate) fn cookies(&mut self) -> io::Result<BTreeSet<u64>> {
        let (questions, answers) = match self {
            Self::Here => return Ok(look()),
            Self::Process { questions, answers, .. } => (questions, answers),
        };
        questions.write_all(&[QUESTION])?;
        let count = word(answers)?;
        if count > COOKIES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        (0..count).map(|_| word(answers)).collect()
    }
}

impl Drop for OpenSockets {
    fn drop(&mut self) {
        if let Self::Process { child, .. } = self {
            // It waits for nobody: neither for an answer to be read nor for its own end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn word(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// What the process does that looks: answers until nobody asks any more.
pub(crate) fn serve() -> ExitCode {
    // Who ends all of the daemon's processes means the daemon; this one ends with its pipe.
    let signals = [Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2];
    let _held_back = SignalFd::new(&signals);
    confinement::begin(&[]);
    if let Err(error) = confinement::enter(Role::Looker) {
        eprintln!("calistod: {error}");
        return ExitCode::FAILURE;
    }
    match answer(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(mut questions: impl Read, mut answers: impl Write) -> io::Result<()> {
    let mut question = [0];
    while questions.read(&mut question)? > 0 {
        let cookies = look();
        let mut answer = Vec::with_capacity(8 + 8 * cookies.len());
        answer.extend((cookies.len() as u64).to_le_bytes());
        answer.extend(cookies.iter().flat_map(|cookie| cookie.to_le_bytes()));
        answers.write_all(&answer)?;
        answers.flush()?;
    }
    Ok(())
}

/// The cookies of all sockets that any process has open that this one may look at.
fn look() -> BTreeSet<u64> {
    let mut cookies = BTreeSet::new();
    let Ok(processes) = fs::read_dir("/proc") else { return cookies };
    for process in processes.flatten() {
        let pid = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let pid = pid.and_then(Pid::from_raw);
        let (Some(pid), Ok(entries)) = (pid, fs::read_dir(process.path().join("fd"))) else {
            continue;
        };
        // One that ends meanwhile has nothing open.
        let Ok(holder) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        for entry in entries.flatten() {
            let is_socket = fs::read_link(entry.path())
                .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"socket:"));
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(number) = number.filter(|_| is_socket) else { continue };
            if let Ok(copy) = pidfd_getfd(&holder, number, PidfdGetfdFlags::empty()) {
                cookies.extend(sys::socket::cookie_of(copy.as_fd()));
            }
        }
    }
    cookies
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn an_open_socket_is_found_and_a_closed_one_is_not() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
        let cookie = sys::socket::cookie_of(socket.as_fd()).expect("every socket has one");
        assert!(OpenSockets::Here.cookies().expect("it is here").contains(&cookie));
        drop(socket);
        assert!(!OpenSockets::Here.cookies().expect("it is here").contains(&cookie));
    }

    #[test]
    fn each_question_has_its_answer_in_the_order_of_questions() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
        let cookie = sys::socket::cookie_of(socket.as_fd()).expect("every socket has one");
        let mut answers = Vec::new();
        answer([QUESTION; 2].as_slice(), &mut answers).expect("memory is written");
        let mut answers = answers.as_slice();
        for _ in 0..2 {
            let count = word(&mut answers).expect("a count comes first");
            let cookies: Vec<u64> =
                (0..count).map(|_| word(&mut answers).expect("so many follow")).collect();
            assert!(cookies.contains(&cookie));
        }
        assert!(answers.is_empty());
    }

    #[test]
    fn a_process_that_has_ended_is_an_error_and_not_an_empty_answer() {
        let mut gone =
            OpenSockets::start("/bin/true".into()).expect("there is a program that ends");
        assert!(gone.cookies().is_err());
    }
}
