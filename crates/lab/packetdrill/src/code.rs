//! The assertions in a script: a small part of Python, over the numbers of TCP_INFO.

use std::collections::BTreeMap;

/// The numbers that code may name.
pub(crate) type Names = BTreeMap<String, i64>;

/// Runs statements; an error says which did not hold.
pub(crate) fn run(code: &str, names: &mut Names) -> Result<(), String> {
    let code: Vec<&str> = code.lines().map(|line| line.split('#').next().unwrap_or("")).collect();
    for statement in code.join("\n").split(['\n', ';']) {
        let statement = statement.trim().trim_end_matches('\\').trim();
        let statement = statement.split("//").next().unwrap_or("").trim();
        if statement.is_empty() || statement.starts_with("print") {
            continue;
        }
        if let Some(claim) = statement.strip_prefix("assert ") {
            let mut expression = Expression { rest: claim, names };
            if expression.any()? == 0 {
                let (claim, _) = claim.split_once(',').unwrap_or((claim, ""));
                let seen: Vec<String> = names
                    .iter()
                    .filter(|(name, _)| claim.contains(name.as_str()))
                    .map(|(name, value)| format!("{name} = {value}"))
                    .collect();
                return Err(format!("`{}` does not hold: {}", claim.trim(), seen.join(", ")));
            }
        } else if let Some((name, value)) = statement.split_once('=') {
            let value = Expression { rest: value, names }.any()?;
            names.insert(name.trim().to_string(), value);
        } else {
            return Err(format!("`{statement}` is not understood"));
        }
    }
    Ok(())
}

struct Expression<'a> {
    rest: &'a str,
    names: &'a Names,
}

impl Expression<'_> {
    fn take(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn any(&mut self) -> Result<i64, String> {
        let mut value = self.all()?;
        while self.take("or ") {
            value |= self.all()?;
        }
        Ok(value)
    }

    fn all(&mut self) -> Result<i64, String> {
        let mut value = self.comparison()?;
        while self.take("and ") {
            value = i64::from(value != 0) & i64::from(self.comparison()? != 0);
        }
        Ok(value)
    }

    /// `a < b <= c` holds when both do.
    fn comparison(&mut self) -> Result<i64, String> {
        let mut left = self.sum()?;
        let (mut holds, mut is_comparison) = (true, false);
        loop {
            let operator = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|op| self.take(op));
            let Some(operator) = operator else { break };
            let right = self.sum()?;
            holds &= match operator {
                "==" => left == right,
                "!=" => left != right,
                "<=" => left <= right,
                ">=" => left >= right,
                "<" => left < right,
                _ => left > right,
            };
            (left, is_comparison) = (right, true);
        }
        Ok(if is_comparison { i64::from(holds) } else { left })
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value = value.wrapping_add(self.product()?);
            } else if self.take("-") {
                value = value.wrapping_sub(self.product()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.atom()?;
        loop {
            if self.take("*") {
                value = value.wrapping_mul(self.atom()?);
            } else if self.take("/") {
                value = value.checked_div(self.atom()?).ok_or("a division by zero")?;
            } else {
                return Ok(value);
            }
        }
    }

    fn atom(&mut self) -> Result<i64, String> {
        if self.take("(") {
            let value = self.any()?;
            self.take(")");
            return Ok(value);
        }
        if self.take("-") {
            return Ok(self.atom()?.wrapping_neg());
        }
        self.rest = self.rest.trim_start();
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let number = match word.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        number
            .or_else(|| self.names.get(word).copied())
            .ok_or_else(|| format!("`{word}` is neither a number nor a name that is known"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str) -> Result<(), String> {
        let mut names = Names::from([("tcpi_snd_cwnd".to_string(), 10)]);
        run(code, &mut names)
    }

    #[test]
    fn what_holds_holds_and_what_does_not_is_named() {
        assert_eq!(check("assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd"), Ok(()));
        assert_eq!(
            check("TEN = 5 * 2; assert TEN == tcpi_snd_cwnd and 1 <= TEN < 11 # yes"),
            Ok(())
        );
        assert_eq!(
            check("\nassert 9 <= tcpi_snd_cwnd <= 11, 'cwnd=%d' % tcpi_snd_cwnd;\\\n"),
            Ok(())
        );
        let error = check("assert tcpi_snd_cwnd == 7 + 2, tcpi_snd_cwnd").unwrap_err();
        assert_eq!(error, "`tcpi_snd_cwnd == 7 + 2` does not hold: tcpi_snd_cwnd = 10");
        assert!(check("assert nobody == 1").is_err());
        assert!(check("while True").is_err());
    }
}
