//! What `tcp` promises, case by case.

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
    for (line, words) in [
        ("", "TARGET"),
        ("10.0.0.2:7 --transport xdp:veth0", "calisto"),
        ("10.0.0.2:7 --distribution normal", "lognormal"),
    ] {
        let error = parse(line).map(drop).expect_err(line);
        assert!(error.contains(words), "{line}: {error}");
    }
    for (line, words) in [
        ("10.0.0.2:0", "port 0"),
        ("10.0.0.2:7 --payload 8", "16 to"),
        ("10.0.0.2:7 --flows 60000", "fewer flows or more threads"),
        ("10.0.0.2:7 --source-ip fd00::1", "IP versions"),
        ("10.0.0.2:7 --transport calisto --source-ip 10.0.0.1", "leave out --source-ip"),
    ] {
        let args = parse(line).expect(line);
        let error = run(&args, false).map(drop).expect_err(line);
        assert!(error.is_usage() && error.to_string().contains(words), "{line}: {error}");
    }
}
