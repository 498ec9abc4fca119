//! Databases and brokers, each asked by its own clients, over the wire and within the host.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use whole::{Program, binary, run};

use crate::ground::{At, Ground, WAYS};

const POSTGRES: &str = "/usr/lib/postgresql/15/bin";

/// A command of the user "postgres", because a server of PostgreSQL runs as no other, and bytes go
/// through memory between programs of one user alone.
fn as_postgres(ground: &Ground, at: At, words: &[&str]) -> Program {
    let user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
    let calisto = binary("calisto").display().to_string();
    let accelerated = ground.accelerated();
    let daemon = accelerated.daemon();
    let (side, run) = match at {
        At::Here => (accelerated.here(), vec![&*calisto, "run", "--strict", "--"]),
        At::There => (accelerated.there(), vec![]),
    };
    let mut command = side.command(user[0]);
    command.args(&user[1..]).args(run).args(words).current_dir("/");
    command.env("CALISTO_ADMIN", daemon.socket()).env("CALISTO_APPS", daemon.apps_socket());
    Program::spawn(&mut command)
}

#[test]
fn postgres_serves_pgbench_that_stays_and_pgbench_that_comes_anew_each_time() {
    let ground = Ground::new();
    let host = ground.host(At::Here);
    let folder = ground.folder().join("postgres");
    std::fs::create_dir(&folder).expect("the folder is ours");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(ground.folder(), open).expect("the folder is ours");
    let (status, _, said) = run(Command::new("chown").arg("postgres").arg(&folder));
    assert!(status.success(), "{said}");
    let folder = folder.display().to_string();
    let initdb = format!("{POSTGRES}/initdb");
    let words = [&*initdb, "-D", &folder, "-A", "trust", "--no-sync", "--no-instructions"];
    as_postgres(&ground, At::There, &words).succeed();
    let rule = "host all all 0.0.0.0/0 trust\n";
    std::fs::write(ground.folder().join("postgres/pg_hba.conf"), rule).expect("we are root");
    let postgres = format!("{POSTGRES}/postgres");
    let words = [&*postgres, "-D", &folder, "-h", "0.0.0.0", "-k", "", "-F"];
    let mut server = as_postgres(&ground, At::Here, &words);
    server.wait_until_it_says("ready to accept connections");
    let ask = |at: At, words: &[&str]| as_postgres(&ground, at, words).succeed();
    let pgbench = |at: At, more: &[&str]| {
        let words = ["pgbench", "-h", &host, "-n", "-c", "4", "-j", "2"];
        ask(at, &[&words[..], more, &["postgres"]].concat())
    };
    ask(At::There, &["pgbench", "-h", &host, "-i", "-q", "postgres"]);
    for at in [At::There, At::Here] {
        let before = ground.accelerated().carried();
        let query = "select string_agg(md5(at::text), '') from generate_series(1, 8192) at";
        let sum = "select md5(string_agg(md5(at::text), '')) from generate_series(1, 8192) at";
        let psql = |query: &str| ask(at, &["psql", "-h", &host, "-X", "-A", "-t", "-c", query]);
        let (long, sum) = (psql(query), psql(sum));
        assert_eq!(md5(long.trim_end()), sum.trim_end(), "{} bytes came", long.len());
        // The second: a connection, and a process of the server, for each transaction.
        for more in [&["-t", "10"][..], &["-C", "-S", "-t", "10"]] {
            let said = pgbench(at, more);
            assert!(said.contains("actually processed: 40/40\n"), "{said}");
            assert!(said.contains("failed transactions: 0 "), "{said}");
        }
        ground.was_carried(At::Here, at, before, long.len() as u64);
    }
    let counts = "select count(*) from pgbench_history";
    let count = ask(At::There, &["psql", "-h", &host, "-X", "-A", "-t", "-c", counts]);
    assert_eq!(count, "80\n", "every transaction of those that stay is in it");
    // Who is connected is put out.
    server.signal(rustix::process::Signal::INT);
    server.end();
    ground.accelerated().nothing_is_left();
}

/// Of a text, in hex.
fn md5(text: &str) -> String {
    let script = "printf %s \"$(cat)\" | md5sum";
    let mut command = Command::new("sh");
    let mut child = command
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a shell is there");
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, text.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).chars().take_while(|at| *at != ' ').collect()
}

#[test]
fn mariadb_takes_a_table_and_gives_it_back() {
    let ground = Ground::new();
    let host = ground.host(At::Here);
    let data = format!("--datadir={}", ground.path("mariadb"));
    let socket = format!("--socket={}", ground.path("mariadb.sock"));
    let words = ["mariadb-install-db", "--no-defaults", &data, "--user=root", "--skip-test-db"];
    ground.run(At::There, &words).succeed();
    let words = ["/usr/sbin/mariadbd", "--no-defaults", &data, &socket, "--port=3306"];
    let more = ["--bind-address=0.0.0.0", "--user=root", "--skip-grant-tables"];
    let more = [&words[..], &more, &["--skip-name-resolve", "--max-allowed-packet=16M"]].concat();
    let server = ground.serve(At::Here, 3306, &more);
    let lines = ground.body().lines().map(|line| format!("('{line}')"));
    let table = format!(
        "create database if not exists one; use one; create or replace table body (\
         at int auto_increment primary key, line char(64));\ninsert into body (line) values {};\n\
         select line from body order by at;\n",
        lines.collect::<Vec<String>>().join(",\n")
    );
    let query = ground.write("query.sql", &table);
    let client = format!(
        "exec mariadb --no-defaults --skip-ssl -h {host} -u root -N -B \
         --max-allowed-packet=16M <{query}"
    );
    ground.take_both_ways(&["sh", "-c", &client]);
    ground.end([server]);
}

#[test]
fn mosquitto_keeps_a_message_and_tells_it_to_who_comes_later() {
    let ground = Ground::new();
    let settings = "listener 1883 0.0.0.0\nallow_anonymous true\nuser root\npersistence false\n";
    let settings = ground.write("mosquitto.conf", settings);
    for (server_at, client_at) in WAYS {
        let host = ground.host(server_at);
        let words = ["/usr/sbin/mosquitto", "-c", &settings];
        let server = ground.serve(server_at, 1883, &words);
        let publish = ["mosquitto_pub", "-h", &host, "-t", "body", "-r", "-q", "1", "-f"];
        let publish = [&publish[..], &["www/body"]].concat();
        ground.run(client_at, &publish).succeed();
        let words = ["mosquitto_sub", "-h", &host, "-t", "body", "-C", "1", "-N"];
        ground.take(server_at, client_at, &words);
        ground.end([server]);
    }
}

#[test]
fn beanstalkd_takes_a_job_and_gives_it_back() {
    let ground = Ground::new();
    let host = ground.host(At::Here);
    let body = ground.body();
    let jobs = format!("put 0 0 60 {}\r\n{body}\r\nreserve\r\ndelete 1\r\nquit\r\n", body.len());
    let jobs = ground.write("jobs", &jobs);
    for at in [At::There, At::Here] {
        let words = ["beanstalkd", "-p", "11300", "-z", "2000000"];
        let server = ground.serve(At::Here, 11300, &words);
        let client = format!("nc.openbsd {host} 11300 <{jobs} | grep -vE '^(INS|RES|DEL|\r)'");
        ground.take(At::Here, at, &["sh", "-c", &client]);
        ground.end([server]);
    }
}
