//! A thief in the place of each kind of thread: what it tries fails.

use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;

use confine::{Calls, Confined, Rights, enter};
use sys::capability::{Capability, have};
use sys::thief;

/// Runs `theft` on a thread of its own that has entered `rights`.
fn confined<T: Send>(rights: &Rights<'_>, theft: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            assert_eq!(enter(rights).expect("root may give up rights"), Confined::Whole);
            theft()
        });
        thread.join().expect("a thief fails, and does not panic")
    })
}

/// What a thread with nothing tries; the names of what it was able to do.
fn steal(victim: u32) -> Vec<&'static str> {
    let mut stolen = Vec::new();
    let mut tried = |what, is_done: bool| {
        if is_done {
            stolen.push(what);
        }
    };
    tried("opens a file", File::open("/etc/passwd").is_ok());
    tried("opens a file to write", OpenOptions::new().write(true).open("/etc/passwd").is_ok());
    tried("makes a file", File::create("/tmp/calisto-thief").is_ok());
    tried("removes a file", fs::remove_file("/tmp/calisto-nobody").is_ok());
    tried("lists a folder", fs::read_dir("/proc").is_ok());
    tried("executes a program", Command::new("/bin/true").status().is_ok());
    tried("traces a process", thief::attach(victim).is_ok());
    tried("reads a process", thief::read_memory(victim).is_ok());
    tried("takes a descriptor", thief::take_descriptor(victim).is_ok());
    tried("loads a program", thief::load_bpf_program().is_ok());
    tried("signals a process", thief::signal(victim).is_ok());
    tried("limits a process", thief::limit(victim).is_ok());
    tried("has a process signalled", thief::own_descriptor(victim).is_ok());
    tried("makes executable memory", thief::executable_memory().is_ok());
    tried("forks", thief::fork().is_ok());
    tried("changes namespace", thief::unshare().is_ok());
    tried("mounts", thief::mount().is_ok());
    tried("listens", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_ok());
    tried("opens a socket", UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).is_ok());
    tried("connects", UnixStream::connect("/run/calisto/admin.sock").is_ok());
    tried("starts a thread", thread::Builder::new().spawn(|| ()).is_ok());
    tried("keeps a capability", have(Capability::NetAdmin) || have(Capability::Bpf));
    stolen
}

/// A process to steal from, ended with the value.
struct Victim(std::process::Child);

impl Victim {
    fn start() -> Self {
        Self(Command::new("/bin/sleep").arg("600").spawn().expect("there is a program that waits"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_unconfined_thread_of_root_can_do_all_of_it() {
    let victim = Victim::start();
    // Otherwise the tests below would pass because of a fault in what they try.
    let pid = victim.pid();
    let able = [
        thief::read_memory(pid),
        thief::take_descriptor(pid),
        thief::load_bpf_program(),
        thief::signal(pid),
        thief::limit(pid),
        thief::own_descriptor(pid),
        thief::executable_memory(),
        thief::fork(),
        thief::mount(),
    ];
    assert!(able.iter().all(Result::is_ok), "{able:?}");
    thread::spawn(|| thief::unshare().expect("root may")).join().expect("it may");
    thread::spawn(move || thief::attach(pid).expect("root may")).join().expect("it may");
}

#[test]
fn a_thief_in_a_thread_that_keeps_nothing_gets_nothing() {
    let victim = Victim::start();
    let stolen = confined(&Rights::NOTHING, || steal(victim.pid()));
    assert_eq!(stolen, [""; 0]);
}

#[test]
fn a_thread_that_keeps_nothing_computes_waits_writes_and_ends() {
    let (mut reader, mut writer) = std::io::pipe().expect("descriptors are left");
    let sum = confined(&Rights::NOTHING, move || {
        use std::io::{Read, Write};
        let memory: Vec<u64> = (0..1_000_000).collect();
        thread::sleep(std::time::Duration::from_millis(1));
        writer.write_all(&[7]).expect("it has the descriptor");
        let mut byte = [0];
        reader.read_exact(&mut byte).expect("it has the descriptor");
        memory.iter().sum::<u64>() + u64::from(byte[0])
    });
    assert_eq!(sum, 499_999_500_007);
}

#[test]
fn a_thread_reads_below_its_paths_and_nowhere_else() {
    let rights = Rights { calls: &[Calls::Files], reads: &["/proc"], ..Rights::NOTHING };
    confined(&rights, || {
        assert!(fs::read_to_string("/proc/self/status").is_ok());
        assert!(fs::read_dir("/proc").is_ok());
        assert!(File::open("/etc/passwd").is_err());
        assert!(OpenOptions::new().write(true).open("/proc/self/comm").is_err());
    });
}

#[test]
fn who_reads_all_of_proc_does_not_read_the_memory_of_a_process() {
    let victim = Victim::start();
    let memory = format!("/proc/{}/mem", victim.pid());
    assert!(File::open(&memory).is_ok(), "root may");
    let rights = Rights {
        capabilities: &[Capability::SysPtrace],
        calls: &[Calls::Files],
        reads: &["/proc"],
        ..Rights::NOTHING
    };
    assert!(confined(&rights, || File::open(&memory).is_err()));
}

#[test]
fn a_thread_replaces_sockets_in_its_folder_and_no_other_file() {
    let folder = std::env::temp_dir().join(format!("calisto-confine-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    let path = folder.join("a.sock");
    let listen = || std::os::unix::net::UnixListener::bind(&path);
    drop(listen().expect("nothing is there"));
    let elsewhere = folder.with_extension("file");
    fs::write(&elsewhere, "of somebody else").expect("it can be written");
    let rights = Rights {
        calls: &[Calls::Sockets, Calls::Replacing],
        replaces: &[&folder],
        ..Rights::NOTHING
    };
    confined(&rights, || {
        fs::remove_file(&path).expect("it is in the folder");
        drop(listen().expect("it is in the folder"));
        assert!(File::create(folder.join("file")).is_err());
        assert!(fs::remove_file(&elsewhere).is_err());
    });
    fs::remove_dir_all(&folder).expect("it is ours");
    fs::remove_file(&elsewhere).expect("it is still there");
}

#[test]
fn threads_are_started_but_no_processes_and_begin_with_the_rights_of_their_starter() {
    let victim = Victim::start();
    let rights = Rights { calls: &[Calls::Threads], ..Rights::NOTHING };
    confined(&rights, || {
        let pid = victim.pid();
        let child = thread::spawn(move || (File::open("/etc/passwd").is_ok(), thief::fork()));
        let (has_opened, forked) = child.join().expect("it has no reason to panic");
        assert!(!has_opened && forked.is_err());
        assert!(Command::new("/bin/true").status().is_err());
        assert!(thief::signal(pid).is_err());
    });
}

#[test]
fn who_may_nudge_a_thread_may_not_signal_it_otherwise() {
    let victim = Victim::start();
    let pid = victim.pid();
    let rights = Rights {
        capabilities: &[Capability::Kill],
        calls: &[Calls::Scheduling],
        reaches_out: true,
        ..Rights::NOTHING
    };
    confined(&rights, || {
        thief::signal_thread(pid, sys::signal::NUDGE).expect("it is a nudge");
        assert!(thief::signal_thread(pid, sys::signal::NUDGE - 5).is_err());
        assert!(thief::limit(pid).is_err());
    });
}

#[test]
fn elements_of_maps_may_be_changed_where_no_program_may_be_loaded() {
    let rights = Rights {
        capabilities: &[Capability::Bpf, Capability::NetAdmin],
        calls: &[Calls::MapElements],
        ..Rights::NOTHING
    };
    assert!(confined(&rights, thief::load_bpf_program).is_err());
}

#[test]
fn what_was_given_up_is_not_had_back() {
    confined(&Rights::NOTHING, || {
        let more = Rights {
            capabilities: &[Capability::NetAdmin],
            calls: &[Calls::Files],
            reads: &["/"],
            ..Rights::NOTHING
        };
        let _ = enter(&more);
        assert!(File::open("/etc/passwd").is_err());
        assert!(!have(Capability::NetAdmin));
    });
}
