//! The command line of `replay`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use policy::steer::NAMES;

use crate::{Options, Pace};

/// Play a capture through the data path, and say what became of its packets.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    calisto replay trace.pcap\n      \
        what is in it, and how the flows would spread over four workers\n  \
    calisto replay trace.pcapng --policy modulo --workers 4,5\n      \
        a fifth worker comes in the middle: which flows move, and does order hold\n  \
    calisto replay trace.pcap --real-time --speed 2 -j\n      \
        at twice the pace of its capture, as JSON\n  \
    tcpdump -i eth0 -w - -c 10000 | calisto replay /dev/stdin\n\n\
    The data path sees what a port would have received: packets of the loopback interface, of \
    groups and of fragments are counted by their reasons and reach no worker.")]
pub struct Args {
    /// The capture: pcap or pcapng, of Ethernet, raw IP, BSD loopback or `tcpdump -i any`.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How flows are given to workers.
    #[arg(short, long, default_value = "sticky", value_name = "NAME", value_parser = policies())]
    pub policy: String,
    /// How many workers. Several numbers, such as 4,5,3: it changes at equal parts of the file.
    #[arg(short, long, default_value = "4", value_delimiter = ',', value_name = "N,...")]
    pub workers: Vec<u16>,
    /// Flow groups that are owned and moved: a power of two from 128 to 1048576.
    #[arg(long, default_value_t = 1 << 16, value_name = "N")]
    pub groups: u32,
    /// Decides hash key, lots and which worker is slow when: the same seed repeats a replay.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Name the N flows with most bytes.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub top: usize,
    /// Flows that are told apart, at most; 200 bytes of memory each.
    #[arg(long, default_value_t = 1 << 20, value_name = "N")]
    pub flows_max: usize,
    /// Play each packet when it is due instead of as fast as it goes.
    #[arg(long)]
    pub real_time: bool,
    /// Let the capture's time pass this many times as fast as it did.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", requires = "real_time")]
    pub speed: f64,
    /// Drop packets with a wrong checksum, as a port does whose link is not trusted.
    ///
    /// Without this they are counted and played: a capture made on the sending host has packets
    /// whose checksums the NIC had still to compute. A packet of which only the start is there
    /// cannot have a right one, and is dropped, too.
    #[arg(long)]
    pub check_checksums: bool,
}

/// Every policy, for the help and for whoever mistypes one.
fn policies() -> PossibleValuesParser {
    PossibleValuesParser::new(NAMES.map(|(name, help)| PossibleValue::new(name).help(help)))
}

impl Args {
    /// The settings that the command line gives when only the file is named.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        let Options { policy, workers, groups, seed, top, flows_max, check_checksums, pace: _ } =
            Options::default();
        Self {
            file: file.into(),
            policy,
            workers,
            groups,
            seed,
            top,
            flows_max,
            real_time: false,
            speed: 1.0,
            check_checksums,
        }
    }

    /// The settings of the replay.
    pub fn options(&self) -> Options {
        let Self { policy, workers, groups, seed, top, flows_max, check_checksums, .. } = self;
        Options {
            policy: policy.clone(),
            workers: workers.clone(),
            groups: *groups,
            seed: *seed,
            top: *top,
            flows_max: *flows_max,
            check_checksums: *check_checksums,
            pace: if self.real_time { Pace::Recorded { speed: self.speed } } else { Pace::Fast },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_defaults_of_the_command_line_are_those_of_the_library() {
        let cli = Cli::try_parse_from(["replay", "a.pcap"]).expect("a file is enough");
        assert_eq!(cli.args.options(), Options::default());
        assert_eq!(Args::new("a.pcap").options(), Options::default());
    }

    #[test]
    fn workers_are_a_list_and_speed_belongs_to_real_time() {
        let words = ["replay", "a.pcap", "--workers", "4,5", "--real-time", "--speed", "2"];
        let cli = Cli::try_parse_from(words).expect("well formed");
        let options = cli.args.options();
        assert_eq!((options.workers, options.pace), (vec![4, 5], Pace::Recorded { speed: 2.0 }));
        assert!(Cli::try_parse_from(["replay", "a.pcap", "--speed", "2"]).is_err());
    }

    #[test]
    fn every_policy_can_be_named_and_a_mistyped_one_is_shown_the_others() {
        for (name, _) in NAMES {
            let cli = Cli::try_parse_from(["replay", "a.pcap", "--policy", name]);
            cli.unwrap_or_else(|error| panic!("{error}")).args.options().check().expect(name);
        }
        let error = Cli::try_parse_from(["replay", "a.pcap", "--policy", "stick"]).err();
        assert!(error.is_some_and(|error| error.to_string().contains("'sticky'")));
    }
}
