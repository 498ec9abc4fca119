//! Which packets are wanted, as tcpdump would say it: a program of classic BPF.
//!
//! libpcap compiles the expression. Where the program runs is its port's to say ([`Judge`]): in the
//! XDP program, translated; in the kernel's packet socket, as it is; or here, after the packet has
//! come.

use std::fmt;
use std::sync::Arc;

pub use sys::pcap::Instruction;
use sys::pcap::{self, PcapError};

mod check;
mod interpreter;
pub(crate) mod opcode;

/// Bytes of a packet that a program may say it takes.
const SNAPLEN: u32 = 65535;

/// Instructions of a program, at most (`BPF_MAXINSNS`).
const INSTRUCTIONS_MAX: usize = 4096;

/// A compiled expression; cloning it is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    expression: Arc<str>,
    program: Arc<[Instruction]>,
}

/// Where a port's packets are filtered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judge {
    /// The kernel: nothing else is received.
    Kernel,
    /// Whoever receives from the port: everything is received.
    Reader {
        /// Why the kernel does not.
        why: String,
    },
}

/// Why there is no such filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// The expression was not compiled.
    Compile {
        /// It.
        expression: String,
        /// Why not.
        error: PcapError,
    },
    /// The program is none that may run.
    Program {
        /// Where it comes from.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile { error: error @ PcapError::NoLibrary { .. }, .. } => error.fmt(f),
            Self::Compile { expression, error } => write!(
                f,
                "{expression:?} is no filter: {error}; write it as for tcpdump, see pcap-filter(7)"
            ),
            Self::Program { expression, reason } => {
                write!(f, "the program of filter {expression:?} cannot be run: {reason}")
            }
        }
    }
}

impl std::error::Error for FilterError {}

impl Filter {
    /// Compiles an expression in the language of tcpdump, pcap-filter(7), for packets that begin
    /// with an Ethernet header. Names in it are looked up now.
    ///
    /// # Errors
    /// It makes no sense, or there is no libpcap on this machine.
    pub fn compile(expression: &str) -> Result<Self, FilterError> {
        let program = pcap::compile(expression, SNAPLEN)
            .map_err(|error| FilterError::Compile { expression: expression.to_owned(), error })?;
        Self::from_program(expression, &program)
    }

    /// A program that was compiled elsewhere; `expression` is what it is called.
    ///
    /// # Errors
    /// It is too long, or could do what no filter may: jump out of itself, divide by zero.
    pub fn from_program(expression: &str, program: &[Instruction]) -> Result<Self, FilterError> {
        check::check(program)
            .map_err(|reason| FilterError::Program { expression: expression.to_owned(), reason })?;
        Ok(Self { expression: expression.into(), program: program.into() })
    }

    /// Whether `packet`, from its Ethernet header on, is wanted. Bounded work.
    #[inline]
    pub fn matches(&self, packet: &[u8]) -> bool {
        interpreter::run(&self.program, packet) != 0
    }

    /// What it was made from.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Its instructions.
    pub fn program(&self) -> &[Instruction] {
        &self.program
    }
}

#[cfg(test)]
mod tests;
