//! `calisto load`: requests on a schedule that no reply can bend, and what came back.

use clap::{Args, Subcommand};
use cli::failure::Failure;
use cli::output;

/// Generate load and measure what comes back.
///
/// Open loop unless --outstanding is given: requests leave when they are due, whatever comes back,
/// and latency counts from then. Every answer is checked.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto load udp 10.0.0.2:7 --rate 20k --flows 4000\n  \
    calisto load redis 10.0.0.2:6379 --rate 50k --flows 32 --key-order zipf\n  \
    calisto load http http://10.0.0.2:8080/ --samples 10 --rate 40k --seconds 5 --csv")]
pub(crate) struct Load {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// UDP requests, latency from the intended send time.
    #[command(after_help = "Examples:\n  \
        calisto load udp 10.0.0.2:7 --rate 20k --flows 4000 --seconds 10\n      \
            open loop, Poisson, from sockets of this kernel\n  \
        calisto load udp 10.0.0.2:7 --outstanding 16 -j\n      \
            closed loop, as JSON\n  \
        calisto load udp 10.0.0.2:7 --mpps 0.014 --start_mpps 0.004 --samples 10 --runtime 5 --csv\n      \
            5,000 to 14,000 a second in steps of 5 s, as Shenango's synthetic\n  \
        calisto load udp 10.0.0.2:7 --shift 10k:1s,100k:1s,10k:1s --mean 167 -d bimodal1\n      \
            a load that shifts, with fake work\n  \
        calisto load udp 10.0.0.2:7 --transport xdp:eth1 --source-prefix 10.78.0.0/14 \
            --flows 700000 --check lost=0,p95=200us\n      \
            from a port of ours; fails when a threshold is missed")]
    Udp(Box<load::udp::Args>),
    /// Requests of a fixed size on TCP connections, to a server that copies them back.
    #[command(after_help = "Examples:\n  \
        calisto load tcp 10.0.0.2:7 --rate 50k --flows 64\n      \
            64 connections of this kernel\n  \
        calisto load tcp 10.0.0.2:7 --transport calisto --outstanding 16\n      \
            connections of the daemon on this machine, closed loop\n  \
        calisto load tcp 10.0.0.2:7 --clients 2\n  \
        calisto load tcp 10.0.0.2:7 --leader 10.0.0.1\n      \
            on two machines, of which 10.0.0.1 is the first: both begin together")]
    Tcp(Box<load::tcp::Args>),
    /// Gets and sets of memcached's text protocol; every value that comes back is checked.
    #[command(after_help = "Examples:\n  \
        calisto load memcached 10.0.0.2:11211 --rate 100k --flows 50 --sets 0.1\n  \
        calisto load memcached 10.0.0.2:11211 --keys 100000 --key-order zipf --value-bytes 64-1024")]
    Memcached(Box<load::store::Args>),
    /// GET and SET of Redis's protocol; every value that comes back is checked.
    #[command(after_help = "Examples:\n  \
        calisto load redis 10.0.0.2:6379 --rate 50k --flows 50\n  \
        calisto load redis 10.0.0.2:6379 --sets 1 --no-fill --outstanding 16 -j")]
    Redis(Box<load::store::Args>),
    /// HTTP/1.1 GET of one page on connections that stay open.
    #[command(after_help = "Examples:\n  \
        calisto load http http://10.0.0.2:8080/small --rate 20k --flows 100 --check errors=0\n  \
        calisto load http http://10.0.0.2/ --ramp 1k --rate 50k --seconds 30 --live")]
    Http(Box<load::http::Args>),
}

impl Load {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Ctrl-C ends the load, not the report.
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        let (report, is_csv) = match &self.kind {
            Kind::Udp(args) => (load::udp::run(args, json), args.common.csv),
            Kind::Tcp(args) => (load::tcp::run(args, json), args.common.csv),
            Kind::Memcached(args) => {
                (load::store::run(load::store::Kind::Memcached, args, json), args.common.csv)
            }
            Kind::Redis(args) => {
                (load::store::run(load::store::Kind::Redis, args, json), args.common.csv)
            }
            Kind::Http(args) => (load::http::run(args, json), args.common.csv),
        };
        let report = report.map_err(|error| {
            if error.is_usage() { Failure::usage(error) } else { Failure::new(error) }
        })?;
        if json {
            output::json(&report)?;
        } else if is_csv {
            output::text(&format!("{}\n{}", load::Report::csv_header(), report.csv_lines()))?;
        } else {
            output::text(&report.table())?;
        }
        match &report.failed_checks[..] {
            [] => Ok(()),
            missed => Err(Failure::new(format!("missed: {}", missed.join("; ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Cli;
    use crate::command::Command;

    #[test]
    fn settings_that_make_no_sense_are_wrong_usage() {
        for (words, sentence) in [
            ("load udp 127.0.0.1:0", "port 0"),
            ("load tcp 127.0.0.1:7 --flows 60000", "more threads"),
            ("load memcached 127.0.0.1:7 --keys 0", "choose 1 to"),
            ("load redis 127.0.0.1:7 --sets 7", "only sets"),
            ("load http http://127.0.0.1:0/", "port 0"),
        ] {
            let words = std::iter::once("calisto").chain(words.split(' '));
            let cli = Cli::try_parse_from(words).expect(sentence);
            let Command::Load(load) = cli.command else { panic!("{:?}", cli.command) };
            let failure = load.run(false).expect_err(sentence);
            assert_eq!(failure.exit_code(), 2, "{failure}");
            assert!(failure.to_string().contains(sentence), "{failure}");
        }
    }
}
