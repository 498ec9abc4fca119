//! What others encrypt on one core: DPDK over libipsec-mb, and OpenSSL.

use std::path::Path;
use std::process::{Command, Stdio};

use calisto_nf::esp::Algorithm;

use super::works::TEXT_BYTES;
use crate::error::{Error, OrNeeds};
use crate::place::{Cpus, on_cpu};
use crate::sockets::programs::find;

/// Packets that one of a batch are encrypted with.
const BURST: &str = "32";

/// What is encrypted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    /// RFC 4106.
    Gcm,
    /// AES-128-CBC with HMAC-SHA1-96, RFC 2404.
    CbcSha1,
}

impl Suite {
    /// What it is in our tunnels.
    pub(super) fn algorithm(self) -> Algorithm {
        match self {
            Self::Gcm => Algorithm::Gcm,
            Self::CbcSha1 => Algorithm::CbcSha1,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gcm => "AES-128-GCM",
            Self::CbcSha1 => "AES-128-CBC + HMAC-SHA1",
        }
    }

    fn dpdk_words(self) -> &'static str {
        match self {
            Self::Gcm => {
                "--optype aead --aead-algo aes-gcm --aead-op encrypt --aead-key-sz 16 \
                 --aead-iv-sz 12 --aead-aad-sz 8 --digest-sz 16"
            }
            Self::CbcSha1 => {
                "--optype cipher-then-auth --cipher-algo aes-cbc --cipher-op encrypt \
                 --cipher-key-sz 16 --cipher-iv-sz 16 --auth-algo sha1-hmac --auth-op generate \
                 --auth-key-sz 20 --digest-sz 12"
            }
        }
    }

    /// OpenSSL does both at once where TLS does.
    fn openssl_name(self) -> &'static str {
        match self {
            Self::Gcm => "aes-128-gcm",
            Self::CbcSha1 => "aes-128-cbc-hmac-sha1",
        }
    }
}

/// Gb/s of dpdk-test-crypto-perf with driver aesni_mb; `packets` in all.
pub(super) fn dpdk(suite: Suite, cpus: Cpus, packets: u64) -> Result<f64, Error> {
    let program = find("dpdk-test-crypto-perf", "dpdk-dev")?;
    let Cpus { client, server } = cpus;
    let mut command = Command::new(program);
    // The first core of the list is the one that does not work.
    command.args(["--lcores", &format!("0@{client},1@{server}")]);
    command.args(["--no-huge", "-m", "512", "--no-pci", "--no-telemetry", "--no-shconf"]);
    command.args(["--vdev", "crypto_aesni_mb", "--", "--ptest", "throughput"]);
    command.args(["--devtype", "crypto_aesni_mb", "--burst-sz", BURST]);
    command.args(["--buffer-sz", &TEXT_BYTES.to_string()]);
    command.args(["--total-ops", &packets.to_string(), "--silent", "--csv-friendly"]);
    command.args(suite.dpdk_words().split_ascii_whitespace());
    let said = output(command, client)?;
    dpdk_in(&said).ok_or_else(|| last_of(&said)).or_needs("figure of dpdk-test-crypto-perf")
}

/// Gb/s of `openssl speed`.
pub(super) fn openssl(suite: Suite, cpus: Cpus) -> Result<f64, Error> {
    let mut command = Command::new(find("openssl", "openssl")?);
    command.args(["speed", "-mr", "-elapsed", "-seconds", "1"]);
    command.args(["-bytes", &TEXT_BYTES.to_string(), "-evp", suite.openssl_name()]);
    let said = output(command, cpus.server)?;
    openssl_in(&said).ok_or_else(|| last_of(&said)).or_needs("figure of openssl speed")
}

/// What a program prints, run on `cpu` to its end.
fn output(mut command: Command, cpu: usize) -> Result<String, Error> {
    command.stdin(Stdio::null());
    let name = Path::new(command.get_program()).display().to_string();
    let output = on_cpu(cpu, || command.output().or_needs("peer's program"))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(text);
    }
    Err(format!("{name} ended ({}): {}", output.status, last_of(&text))).or_needs("peer's figure")
}

/// The last line with anything in it.
fn last_of(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    format!("it says {:?}", line.unwrap_or_default())
}

/// The column "Throughput(Gbps)" of its only line of numbers.
fn dpdk_in(text: &str) -> Option<f64> {
    let column = |line: &str, at: usize| line.split(',').nth(at).map(str::to_owned);
    let mut lines = text.lines();
    let head = lines.find(|line| line.starts_with("#lcore id"))?;
    let at = head.split(',').position(|name| name.starts_with("Throughput"))?;
    let line = lines.find(|line| line.starts_with(|first: char| first.is_ascii_digit()))?;
    column(line, at)?.parse().ok()
}

/// Bytes a second are the last field of its line "+F".
fn openssl_in(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("+F:"))?;
    let bytes: f64 = line.rsplit(':').next()?.parse().ok()?;
    Some(bytes * 8.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_of_dpdk_is_under_its_heading() {
        let text = "EAL: Selected IOVA mode 'VA'\n\
                    #lcore id,Buffer Size(B),Burst Size,Ops(Millions),Throughput(Gbps),Cycles/Buf\n\
                    \n1,1408,32,2.084,23.476,1247.480\n";
        assert_eq!(dpdk_in(text), Some(23.476));
        assert_eq!(dpdk_in("EAL: No free hugepages\n"), None);
    }

    #[test]
    fn the_figure_of_openssl_is_bytes_a_second() {
        let text = "+R:700132:AES-128-GCM:1.000000\n+H:1408\n+F:25:AES-128-GCM:1000000000.00\n";
        assert_eq!(openssl_in(text), Some(8.0));
        assert_eq!(openssl_in("+H:1408\n"), None);
    }
}
