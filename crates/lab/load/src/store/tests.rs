//! What `store` promises, case by case; real stores are asked by the tests of the whole system.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &str) -> Result<Args, String> {
    let words = std::iter::once("load").chain(line.split_ascii_whitespace());
    CommandLine::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
}

#[test]
fn wrong_arguments_are_refused_by_a_sentence_with_what_to_do() {
    for line in ["--value-bytes 64-", "--value-bytes -5", "--value-bytes many"] {
        let error = parse(&format!("10.0.0.2:7 {line}")).map(drop).expect_err(line);
        assert!(error.contains("64-1024") || error.contains("unexpected"), "{line}: {error}");
    }
    for (line, words) in [
        ("--keys 0", "choose 1 to 1000000"),
        ("--value-bytes 9-8", "choose 1 to 1048576"),
        ("--sets 2", "only sets"),
        ("--key-bytes 4", "choose 8 to 250"),
    ] {
        let args = parse(&format!("10.0.0.2:7 {line}")).expect(line);
        let error = run(Kind::Redis, &args, false).map(drop).expect_err(line);
        assert!(error.is_usage() && error.to_string().contains(words), "{line}: {error}");
    }
}

/// What comes of filling a store that answers each line with `answer`.
fn fill_at(answer: &'static str) -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let config = CacheConfig { keys: 10, ..CacheConfig::default() };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _) = listener.accept().expect("it comes");
            let mut lines = BufReader::new(stream);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                if line.starts_with(b"set ")
                    && lines.get_mut().write_all(answer.as_bytes()).is_err()
                {
                    return;
                }
                line.clear();
            }
        });
        fill::fill(&Protocol::Memcached(Cache::new(config, 1)), address)
    })
}

#[test]
fn filling_ends_with_every_key_stored_or_with_a_sentence() {
    assert_eq!(fill_at("STORED\r\n"), Ok(()));
    for (answer, words) in
        [("SERVER_ERROR out of memory\r\n", "no room"), ("hello\r\n", "does not speak")]
    {
        let error = fill_at(answer).expect_err(answer);
        let error = error.to_string();
        assert!(error.contains(words) && error.contains("--no-fill"), "{error}");
    }
}
