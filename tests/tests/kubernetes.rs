//! The manifests for Kubernetes, and what they build on: a program in a container that has nothing
//! of Calisto but the daemon's folder.

use std::process::Command;

use serde_json::Value;
use whole::{Accelerated, Program, binary, install, project, run, wait_for};

const PYTHON: &str = "/usr/bin/python3";

/// What `name` of the manifests amounts to, held against the models of the API.
fn manifests(name: &str) -> Result<Vec<Value>, String> {
    read(&std::fs::read_to_string(project().join("packaging/kubernetes").join(name)).expect(name))
}

fn read(text: &str) -> Result<Vec<Value>, String> {
    install(&["/usr/lib/python3/dist-packages/kubernetes=python3-kubernetes"]);
    let file = std::env::temp_dir().join(format!(
        "calisto-kubernetes-{}-{:?}.yaml",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&file, text).expect("the temporary folder is ours");
    let script = project().join("tests/programs/kubernetes_models.py");
    let (status, out, said) = run(Command::new(PYTHON).arg(script).arg(&file));
    std::fs::remove_file(&file).expect("it was written");
    match status.success() {
        true => Ok(serde_json::from_str(&out).expect("it prints JSON")),
        false => Err(said),
    }
}

/// The one of that kind.
fn of_kind<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    documents.iter().find(|document| document["kind"] == kind).expect(kind)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[test]
fn the_manifests_are_what_the_models_of_the_api_know() {
    for name in ["calisto.yaml", "pod.yaml"] {
        manifests(name).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
    let sweeps = std::fs::read_to_string(project().join("packaging/sweeps/kubernetes-job.yaml"));
    let sweeps = sweeps.expect("it is there");
    // Debian's models are those of Kubernetes 1.22; this field is of 1.28.
    let newer = "  backoffLimitPerIndex: 3\n";
    assert!(sweeps.contains(newer), "{sweeps}");
    let sweeps = read(&sweeps.replace(newer, "")).unwrap_or_else(|wrong| panic!("{wrong}"));
    let image = &of_kind(&sweeps, "Job")["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, &format!("calisto:{}", env!("CARGO_PKG_VERSION")));
    // And they see what is wrong.
    let text = std::fs::read_to_string(project().join("packaging/kubernetes/calisto.yaml"));
    let text = text.expect("it is there");
    for (right, wrong, says) in [
        ("hostPID:", "hostPid:", "hostPid: no such field"),
        ("  selector:", "  selecter:", "selector"),
        ("periodSeconds: 10", "periodSeconds: \"10\"", "periodSeconds"),
    ] {
        assert!(text.contains(right), "{right}");
        let said = read(&text.replace(right, wrong)).expect_err(wrong);
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn the_manifests_agree_with_each_other_with_the_image_and_with_the_programs() {
    let documents = manifests("calisto.yaml").expect("they are right");
    let pods = &of_kind(&documents, "DaemonSet")["spec"]["template"]["spec"];
    let (first, rest) = (&list(&pods["initContainers"])[0], list(&pods["containers"]));
    let image = format!("calisto:{}", env!("CARGO_PKG_VERSION"));
    for container in rest.iter().chain([first]) {
        assert_eq!(container["image"], *image);
    }
    // The configuration is one.
    let config = of_kind(&documents, "ConfigMap")["data"]["calisto.toml"].as_str();
    let file = std::env::temp_dir().join(format!("calisto-kube-{}.toml", std::process::id()));
    std::fs::write(&file, config.expect("a text")).expect("the temporary folder is ours");
    let check = ["config", "check", "--elsewhere"];
    let (status, out, said) = run(Command::new(binary("calisto")).args(check).arg(&file));
    std::fs::remove_file(&file).expect("it was written");
    assert!(status.success(), "{out}{said}");
    // The probes ask who answers them.
    let daemon = rest.iter().find(|container| container["name"] == "calistod").expect("it");
    let metrics = rest.iter().find(|container| container["name"] == "metrics").expect("it");
    let words: Vec<_> =
        list(&metrics["command"]).iter().map(|word| word.as_str().expect("a text")).collect();
    let listen = words.last().expect("it listens").rsplit_once(':').expect("a port");
    for (probe, path) in
        [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
    {
        let asked = &daemon[probe]["httpGet"];
        assert_eq!((&asked["host"], &asked["path"]), (&listen.0.into(), &path.into()), "{probe}");
        assert_eq!(asked["port"].to_string(), listen.1, "{probe}");
    }
    // What is done for a pod is what the pod looks for.
    let into = list(&first["command"])[2].as_str().expect("a folder");
    let redis = manifests("pod.yaml").expect("they are right");
    let container = &list(&redis[0]["spec"]["containers"])[0];
    let preload = &list(&container["env"])[0];
    assert_eq!(preload["name"], "LD_PRELOAD");
    assert_eq!(preload["value"], format!("{into}/libcalisto_preload.so"));
}

#[test]
fn a_program_of_a_container_that_sees_nothing_but_the_daemons_folder_is_served() {
    let accelerated = Accelerated::start();
    let folder = accelerated.daemon().folder();
    let (status, out, said) =
        run(Command::new(binary("calisto")).arg("library").arg(folder.join("lib")));
    assert!(status.success(), "{said}");
    let library = folder.join("lib/libcalisto_preload.so");
    assert_eq!(out, format!("{}\n", library.display()));
    // As the runtime of a container has it: other processes, other files, no variables of ours.
    let within = "mkdir -p \"$0/run/calisto\" && mount --bind \"$0\" \"$0/run/calisto\" && \
                  mount --rbind \"$0/run\" /run && mount -t tmpfs none /tmp && \
                  export LD_PRELOAD=/run/calisto/lib/libcalisto_preload.so && exec \"$@\"";
    let mut command = accelerated.here().command("env");
    command.args(["-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "unshare", "--mount", "--pid"]);
    command.args(["--fork", "--kill-child", "--mount-proc", "--propagation", "private"]);
    command.args(["sh", "-c", within]).arg(folder).arg(PYTHON);
    let script = project().join("tests/programs/asyncio_server.py");
    let mut server = Program::spawn(command.arg(script).args(["0.0.0.0", "7000"]));
    server.wait_until_it_says("listening");
    let sockets = accelerated.sockets();
    assert_eq!(sockets.len(), 1, "it listens by Calisto: {sockets:?} {}", server.so_far());
    let host = accelerated.here().ipv4().to_string();
    let script = project().join("tests/programs/asyncio_client.py");
    let mut client = accelerated.there().command(PYTHON);
    let client = Program::spawn(client.arg(script).args([&host, "7000", "3", "50000"])).succeed();
    assert!(client.ends_with("are right\n"), "{client}");
    // What was carried is told a moment late.
    wait_for("bytes on the way of Calisto", || {
        match accelerated.daemon().counter("tcp_bytes_received") {
            150_000.. => Ok(()),
            fewer => Err(fewer.to_string()),
        }
    });
    drop(server);
}
