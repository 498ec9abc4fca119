//! `udp-kv`: a key-value store over UDP, written as a plain `async fn`.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use calisto_client::rt::{self, RecvError, Runtime, UdpSocket};
use calisto_client::{AttachOptions, Nanos};
use clap::Parser;

/// Keeps values by keys in memory, over packets from the Calisto daemon. Requests are `get KEY`,
/// `set KEY VALUE` and `del KEY`; answers are the value, `none`, `ok`, `full` or `what?`.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "udp-kv",
    version,
    after_help = "Examples:\n  \
        udp-kv --listen udp:10.0.0.2:11211\n  \
        udp-kv --listen udp:10.0.0.2:11211 --workers 4\n  \
        printf 'set city Athens' | socat - udp:10.0.0.2:11211"
)]
struct Cli {
    /// Whose packets to take, such as udp:10.0.0.2:11211.
    #[arg(long, value_name = "ADDRESS")]
    listen: String,
    /// Threads, each with a share of the flows.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Keys kept at most.
    #[arg(long, value_name = "N", default_value_t = 65536)]
    keys: usize,
    /// The daemon's socket for applications.
    #[arg(long, value_name = "PATH", env = calisto_client::SOCKET_VARIABLE, default_value_os_t = calisto_client::default_socket())]
    socket: PathBuf,
}

type Store = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// What each worker runs: it ends when the runtime stops.
async fn serve(rt: Runtime, cli: Cli, store: Store) -> Result<(), RecvError> {
    if rt.worker() == Some(0) {
        eprintln!("udp-kv: attached as application {} with {} workers", rt.app_id(), rt.workers());
        drop(rt.spawn_named("ctrl-c", stop_at_signal(rt.clone())));
    }
    let mut socket = UdpSocket::bind(&rt, &cli.listen).expect("it has attached with this address");
    let mut request = [0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut request).await?;
        let answer = answer(&request[..len], cli.keys, &store);
        // What cannot be sent is lost, as with any UDP socket; the runtime counts it.
        let _ = socket.send_to(&answer, from).await;
    }
}

async fn stop_at_signal(rt: Runtime) {
    let mut look = rt::interval(Nanos::from_millis(100));
    while !sys::signal::stop_requested() {
        look.tick().await;
    }
    rt.shutdown();
}

fn answer(request: &[u8], keys_max: usize, store: &Store) -> Vec<u8> {
    let mut words = request.trim_ascii().splitn(3, |&byte| byte == b' ');
    let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
    match (words.next(), words.next(), words.next()) {
        (Some(b"get"), Some(key), None) => store.get(key).cloned().unwrap_or(b"none".to_vec()),
        (Some(b"del"), Some(key), None) => {
            store.remove(key).map_or(b"none".to_vec(), |_| b"ok".to_vec())
        }
        (Some(b"set"), Some(key), Some(value)) => {
            if store.len() >= keys_max && !store.contains_key(key) {
                return b"full".to_vec();
            }
            store.insert(key.to_vec(), value.to_vec());
            b"ok".to_vec()
        }
        _ => b"what?".to_vec(),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let options = AttachOptions::new("udp-kv").socket(&cli.socket).listen(&cli.listen);
    let store = Store::default();
    let result =
        sys::signal::install_stop_handler().map_err(|error| error.to_string()).and_then(|()| {
            let main = |rt| serve(rt, cli.clone(), Arc::clone(&store));
            rt::run(options.workers(cli.workers), main).map_err(|error| error.to_string())
        });
    match result {
        Ok(ended) => {
            println!("{} requests, {} answers", ended.stats.received, ended.stats.sent);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("udp-kv: {error}");
            ExitCode::FAILURE
        }
    }
}
