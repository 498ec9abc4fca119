//! What this program is when a case starts it once more: hidden options, no figures.

use clap::ValueEnum;

use super::rpc;
use crate::error::{Error, OrNeeds};

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Requests to the engine.
    Rpc,
    /// Requests to the engine, in batches.
    RpcBatch,
    /// Requests to the engine in packets with IPv4 headers.
    RpcIpv4,
    /// The same to smoltcp, with the same congestion control.
    RpcSmoltcp,
    /// The same to smoltcp without congestion control.
    RpcSmoltcpPlain,
}

/// The hidden options that make this program one of them.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct HelperArgs {
    /// What this program is to be.
    #[arg(long = "helper", hide = true)]
    pub(super) kind: Option<Kind>,
    /// Requests to be answered.
    #[arg(id = "rounds_of_helper", long = "helper-rounds", hide = true)]
    pub(super) rounds: Option<u64>,
}

/// Is one, to its end.
pub(super) fn run(kind: Kind, args: &HelperArgs) -> Result<(), Error> {
    let rounds = args.rounds.ok_or("its parent tells it").or_needs("number of requests")?;
    rpc::converse_as(kind, rounds).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helper::word;

    #[test]
    fn every_kind_of_helper_has_a_word_that_its_command_line_reads() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            helper: HelperArgs,
        }
        for kind in Kind::value_variants() {
            let word = word(*kind);
            let line = ["bench", "--helper", &word, "--helper-rounds", "12"];
            let line =
                <Line as clap::Parser>::try_parse_from(line).expect("its parent writes it so");
            assert_eq!((line.helper.kind, line.helper.rounds), (Some(*kind), Some(12)), "{word}");
        }
    }

    #[test]
    fn a_helper_that_is_not_told_how_much_says_what_it_needs() {
        for kind in Kind::value_variants() {
            let told = run(*kind, &HelperArgs::default()).expect_err("nobody told it");
            assert!(told.to_string().contains("number of requests"), "{told}");
        }
    }
}
