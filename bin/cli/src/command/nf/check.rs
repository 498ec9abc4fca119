//! `calisto nf check`: whether a chain's file, and the files that it names, are right.

use std::path::PathBuf;

use chain::Checked;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::table::grouped;

/// Check a chain's file, the files that it names, and whether this machine has its interfaces,
/// queues and CPUs, without opening a port.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto nf check edge.toml && calisto nf run edge.toml\n  \
    calisto nf check --elsewhere edge.toml                written here, meant for another machine")]
pub(crate) struct Check {
    /// The file that describes the chain.
    file: PathBuf,
    /// Do not ask this machine for interfaces, queues and CPUs: the file is for another.
    #[arg(long)]
    elsewhere: bool,
}

/// What `-j` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema_version: u32,
    name: &'a str,
    slices: usize,
    functions: Vec<&'static str>,
    ipv4_routes: usize,
    ipv6_routes: usize,
}

impl Check {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let (file, folder) = super::file::read(&self.file)?;
        let Checked { ipv4_routes, ipv6_routes } =
            chain::check(&file, &folder).map_err(Failure::new)?;
        if !self.elsewhere {
            chain::check_here(&file).map_err(Failure::new)?;
        }
        let functions: Vec<_> = file.functions.iter().map(|function| function.kind()).collect();
        if json {
            return output::json(&Report {
                schema_version: 1,
                name: &file.name,
                slices: file.slices.len(),
                functions,
                ipv4_routes,
                ipv6_routes,
            });
        }
        let mut text = format!(
            "{}: nothing is wrong: chain {}, {}, functions {}\n",
            self.file.display(),
            file.name,
            match file.slices.len() {
                1 => "1 slice".to_owned(),
                more => format!("{more} slices"),
            },
            functions.join(", ")
        );
        if ipv4_routes + ipv6_routes > 0 {
            let [four, six] = [ipv4_routes, ipv6_routes].map(|count| grouped(count as u64));
            text.push_str(&format!("routes: {four} of IPv4, {six} of IPv6\n"));
        }
        output::text(&text)
    }
}
