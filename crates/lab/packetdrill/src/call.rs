//! Reads a system call: name, arguments, what it returns.

use crate::run::Failure;
use crate::scan::Scan;
use crate::script::{Call, Value};

/// Reads `name(arguments) = result [errno (text)]`.
pub(crate) fn parse(scan: &mut Scan<'_>) -> Result<Call, Failure> {
    let Some(name) = scan.word() else {
        return Err(scan.fail("a packet, a call, code or a command has to follow the time"));
    };
    scan.expect("(")?;
    let mut arguments = Vec::new();
    while !scan.take(")") {
        arguments.push(value(scan)?);
        scan.take(",");
    }
    scan.expect("=")?;
    let result = if scan.take("?") { None } else { Some(scan.number()?) };
    let mut errno = None;
    if scan.peek().is_some_and(|letter| letter.is_ascii_uppercase()) {
        errno = scan.word().map(str::to_string);
    }
    if scan.take("(") {
        scan.until(")")?;
    }
    Ok(Call { name: name.to_string(), arguments, result, errno })
}

fn value(scan: &mut Scan<'_>) -> Result<Value, Failure> {
    if scan.take("...") {
        return Ok(Value::Any);
    }
    if scan.take("\"") {
        return Ok(Value::Text(scan.until("\"")?.to_string()));
    }
    if scan.take("[") {
        let mut values = Vec::new();
        while !scan.take("]") {
            values.push(value(scan)?);
            scan.take(",");
        }
        return Ok(Value::List(values));
    }
    if scan.take("{") {
        return fields(scan);
    }
    if scan.peek().is_some_and(|letter| letter.is_ascii_digit() || letter == '-') {
        let mut number = scan.number()?;
        while scan.take("|") {
            number |= scan.number()?;
        }
        return Ok(Value::Number(number));
    }
    let Some(word) = scan.word() else { return Err(scan.fail("an argument is missing")) };
    if word == "NULL" {
        return Ok(Value::Null);
    }
    // htons(8080) and the like: the value is in the parentheses.
    if scan.take("(") {
        let inner = value(scan)?;
        scan.expect(")")?;
        return Ok(inner);
    }
    let mut words = vec![word.to_string()];
    while scan.take("|") {
        words.extend(scan.word().map(str::to_string));
    }
    Ok(Value::Words(words))
}

/// `name=value` or `name(length)=value`, or values without names, numbered.
fn fields(scan: &mut Scan<'_>) -> Result<Value, Failure> {
    let mut fields = Vec::new();
    while !scan.take("}") {
        let mut ahead = scan.clone();
        let mut name = fields.len().to_string();
        if let Some(word) = ahead.word() {
            if ahead.take("(") {
                ahead.until(")")?;
            }
            if ahead.take("=") {
                name = word.to_string();
                *scan = ahead;
            }
        }
        fields.push((name, value(scan)?));
        scan.take(",");
    }
    Ok(Value::Struct(fields))
}
