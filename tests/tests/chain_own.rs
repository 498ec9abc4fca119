//! Functions in a chain that are not ours: registered by a program, or loaded from an object in C.

use std::any::Any;
use std::fs::Permissions;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use chain::own::{Batch, Function, Kinds, Nanos, Own, Verdict, Verdicts};
use sys::ethtool::{self, Offload};
use whole::{Line, NfRun, Transfer, four, run};

/// Drops one TCP packet in every few.
struct Lossy {
    every: u64,
    seen: u64,
    dropped: u64,
}

impl Function for Lossy {
    fn name(&self) -> &'static str {
        "lossy"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, _now: Nanos) {
        for (_, frame, verdict) in verdicts.undecided(batch) {
            self.seen += u64::from(frame.bytes().get(23) == Some(&6));
            if self.seen >= self.every {
                (self.seen, self.dropped) = (0, self.dropped + 1);
                *verdict = Verdict::Drop;
            }
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        each("dropped", "Packets that had bad luck.", self.dropped);
    }
}

impl Own for Lossy {
    fn take_over(&mut self, before: &mut dyn Any) {
        let before = before.downcast_ref::<Self>().expect("it is of the same kind");
        (self.seen, self.dropped) = (before.seen, before.dropped);
    }
}

#[test]
fn a_function_that_a_program_has_registered_runs_beside_ours_and_goes_on_after_a_reload() {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    line.host(2).default_route(1, 1, "west");
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    let kinds = Kinds::default().with("lossy", |given| {
        let every = given.number("every", 2..=u64::MAX)?;
        let every = every.ok_or_else(|| given.refuse("every", "is missing"))?;
        Ok(Box::new(Lossy { every, seen: 0, dropped: 0 }))
    });
    let text = |every: &str| {
        format!(
            "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\nkind = \"lossy\"\n\
             {every}\n[[function]]\nkind = \"router\"\n"
        )
    };
    let chain = NfRun::start_with(middle, &text("every = 100"), &[], kinds);
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    let dropped = chain.count("lossy", "dropped");
    assert!(dropped >= 7, "{:?}", chain.figures());
    let why = chain.reload(&text("every = 1"), &[]).expect_err("one is too few");
    assert!(why.contains("line 6: `function.every` is 1"), "{why}");
    chain.reload(&text("every = 1000000"), &[]).expect("it is right");
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    assert_eq!(chain.count("lossy", "dropped"), dropped, "{:?}", chain.figures());
}

/// Compiles an example into a shared object beside the chain's files.
fn compile(example: &str, to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is in the project");
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]);
    command.arg(root.join("crates/functions/plugin/include")).arg("-o").arg(to);
    let (status, _, said) = run(command.arg(root.join("examples").join(example)));
    assert!(status.success(), "{said}");
    std::fs::set_permissions(to, Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn a_nat_in_c_translates_a_network_for_real_tcp_and_its_counters_outlive_a_reload() {
    let line = Line::new(3, 1500);
    line.host(0).default_route(0, 2, "east");
    // All that east knows is the network that the hosts inside are seen as.
    line.host(2).ip("route add 192.0.2.0/24 via 10.90.1.1");
    let [west, middle, east] = [0, 1, 2].map(|number| line.host(number));
    for (host, interface) in [(west, "east"), (east, "west")] {
        let open = || ethtool::set(interface, Offload::TxChecksum, true);
        host.enter(open).expect("a veth leaves checksums open");
    }
    let folder = std::env::temp_dir().join(format!("calisto-nat-c-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
    let object = folder.join("nat.so");
    compile("nat.c", &object);
    let text = |arguments: &str| {
        format!(
            "[[slice]]\nports = [\"xdp:west\", \"xdp:east\"]\n[[function]]\n\
             kind = \"shared-object\"\nfile = \"{}\"\narguments = [{arguments}]\n\
             [[function]]\nkind = \"router\"\n",
            object.display()
        )
    };
    let right = text("\"east\", \"10.90.0.0\", \"192.0.2.0\", \"24\"");
    let chain = NfRun::start(middle, &right, &[]);
    let listener = east.enter(|| TcpListener::bind((four(1, 2), 0))).expect("it is its address");
    let at = listener.local_addr().expect("it listens");
    let client = west.enter(|| TcpStream::connect_timeout(&at, Duration::from_secs(20)));
    let _client = client.expect("there is a way");
    let seen = listener.accept().expect("it is there").1.ip();
    assert_eq!(seen.to_string(), "192.0.2.1");
    Transfer::start(west, east, four(1, 2), 4 << 20).finish();
    let before = chain.count("shared-object", "translated_in");
    assert!(before > 100, "{:?}", chain.figures());
    let why = chain.reload(&text("\"north\", \"10.90.0.0\", \"192.0.2.0\", \"24\""), &[]);
    let why = why.expect_err("there is no such port");
    assert!(why.contains("nat.so: it says: north is no port of the chain"), "{why}");
    chain.reload(&right, &[]).expect("it is right");
    Transfer::start(west, east, four(1, 2), 1 << 20).finish();
    assert!(chain.count("shared-object", "translated_in") > before, "{:?}", chain.figures());
    assert_eq!(chain.count("shared-object", "misbehaved"), 0);
    let _ = std::fs::remove_dir_all(&folder);
}
