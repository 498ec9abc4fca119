//! Reads a script: options, commands, and events with their times.

use base::Nanos;
use wire::tcp;

use crate::run::Failure;
use crate::scan::Scan;
use crate::script::{Action, Ecn, Event, Icmp, Packet, Script, TcpOption, When};

impl Script {
    /// Reads `text`, or says what in which line is not understood.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut scan = Scan::new(text);
        let mut script = Self { options: Vec::new(), setup: Vec::new(), events: Vec::new() };
        while !scan.is_at_end() {
            if scan.take("--") {
                let option = scan.until("\n")?.trim();
                let (name, value) = option.split_once('=').unwrap_or((option, ""));
                script.options.push((name.to_string(), value.to_string()));
            } else if script.events.is_empty() && scan.take("`") {
                script.setup.push(scan.until("`")?.to_string());
            } else {
                script.events.push(event(&mut scan)?);
            }
        }
        Ok(script)
    }
}

fn event(scan: &mut Scan<'_>) -> Result<Event, Failure> {
    if scan.peek() == Some('`') {
        // A command at the end, without a time: at once.
        let when = When {
            is_relative: true,
            start: Nanos::ZERO,
            range_end: None,
            returns: None,
            is_any: false,
        };
        let line = scan.line();
        return Ok(Event { line, when, action: action(scan)? });
    }
    let when = when(scan)?;
    scan.space();
    Ok(Event { line: scan.line(), when, action: action(scan)? })
}

fn when(scan: &mut Scan<'_>) -> Result<When, Failure> {
    let is_any = scan.take("*");
    let is_relative = scan.take("+");
    let start = if is_any { Nanos::ZERO } else { scan.seconds()? };
    let mut when = When { is_relative, start, range_end: None, returns: None, is_any };
    if scan.take("...") {
        when.returns = Some(scan.seconds()?);
    } else if scan.take("~") {
        scan.take("+");
        when.range_end = Some(scan.seconds()?);
    }
    Ok(when)
}

fn action(scan: &mut Scan<'_>) -> Result<Action, Failure> {
    if scan.take("<") {
        let ecn = ecn(scan)?;
        if scan.take("icmp") {
            return icmp(scan);
        }
        return Ok(Action::Inject(packet(scan, ecn)?));
    }
    if scan.take(">") {
        let ecn = ecn(scan)?;
        return Ok(Action::Expect(packet(scan, ecn)?));
    }
    if scan.take("%{") {
        return Ok(Action::Code(scan.until("}%")?.to_string()));
    }
    if scan.take("`") {
        return Ok(Action::Command(scan.until("`")?.to_string()));
    }
    Ok(Action::Call(crate::call::parse(scan)?))
}

/// `[ect0]`, `[noecn]`, `[tos 0x2]` and the like.
fn ecn(scan: &mut Scan<'_>) -> Result<Option<Ecn>, Failure> {
    if !scan.take("[") {
        return Ok(None);
    }
    let text = scan.until("]")?;
    Ok(Some(match text.trim() {
        "noecn" | "tos 0x0" | "tos 0" => Ecn::NotEct,
        "ect0" | "tos 0x2" => Ecn::Ect0,
        "ect1" | "tos 0x1" => Ecn::Ect1,
        "ect01" => Ecn::EitherEct,
        "ce" | "tos 0x3" => Ecn::Ce,
        other => return Err(scan.fail(format!("`{other}` is no mark that is known"))),
    }))
}

fn icmp(scan: &mut Scan<'_>) -> Result<Action, Failure> {
    let (mut mtu, mut start) = (0, 0);
    while let Some(word) = scan.word() {
        match word {
            "unreachable" | "frag_needed" | "packet_too_big" => {}
            "mtu" => mtu = scan.number_as()?,
            other => return Err(scan.fail(format!("ICMP `{other}` is not known"))),
        }
    }
    if scan.take("[") {
        start = scan.number_as()?;
        scan.until("]")?;
    }
    Ok(Action::Icmp(Icmp { mtu, start }))
}

fn packet(scan: &mut Scan<'_>, ecn: Option<Ecn>) -> Result<Packet, Failure> {
    let mut flags = 0;
    for letter in scan.flags().chars() {
        flags |= match letter {
            'S' => tcp::SYN,
            'F' => tcp::FIN,
            'R' => tcp::RST,
            'P' => tcp::PSH,
            '.' => tcp::ACK,
            'E' => tcp::ECE,
            'W' => tcp::CWR,
            'U' => tcp::URG,
            _ => 0,
        };
    }
    let start = scan.number_as()?;
    scan.expect(":")?;
    let _end: u32 = scan.number_as()?;
    scan.expect("(")?;
    let bytes = scan.number_as()?;
    scan.expect(")")?;
    let options = Some(Vec::new());
    let mut packet =
        Packet { ecn, flags, start, bytes, ack: None, window: None, urgent: 0, options };
    loop {
        let mut ahead = scan.clone();
        match ahead.word() {
            Some("ack") => packet.ack = Some(ahead.number_as()?),
            Some("win") => packet.window = Some(ahead.number_as()?),
            Some("urg") => packet.urgent = ahead.number_as()?,
            _ => break,
        }
        *scan = ahead;
    }
    // On the line of a packet `<` begins options; elsewhere it would begin the next packet, but
    // that has a time before it.
    if scan.take("<") {
        packet.options = options_of(scan)?;
    }
    Ok(packet)
}

fn options_of(scan: &mut Scan<'_>) -> Result<Option<Vec<TcpOption>>, Failure> {
    if scan.take("...") {
        scan.expect(">")?;
        return Ok(None);
    }
    let mut options = Vec::new();
    while !scan.take(">") {
        options.push(option(scan)?);
        scan.take(",");
    }
    Ok(Some(options))
}

fn option(scan: &mut Scan<'_>) -> Result<TcpOption, Failure> {
    Ok(match scan.word() {
        Some("mss") => TcpOption::Mss(scan.number_as()?),
        Some("nop") => TcpOption::Nop,
        Some("eol") => TcpOption::End,
        Some("wscale") => TcpOption::WindowScale(scan.number_as()?),
        Some("sackOK") => TcpOption::SackPermitted,
        Some("sack") => {
            let mut blocks = Vec::new();
            while scan.peek().is_some_and(|letter| letter.is_ascii_digit()) {
                let start = scan.number_as()?;
                scan.expect(":")?;
                blocks.push((start, scan.number_as()?));
            }
            TcpOption::Sack(blocks)
        }
        Some("TS") => {
            scan.expect("val")?;
            let value = scan.number_as()?;
            scan.expect("ecr")?;
            TcpOption::Timestamps(value, scan.number_as()?)
        }
        // Bytes as they are, for options that no honest peer sends.
        Some("bytes") => {
            let mut bytes = Vec::new();
            while scan.peek().is_some_and(|letter| letter.is_ascii_digit()) {
                bytes.push(scan.number_as()?);
            }
            TcpOption::Other(bytes)
        }
        other => return Err(scan.fail(format!("option {other:?} is not known"))),
    })
}
