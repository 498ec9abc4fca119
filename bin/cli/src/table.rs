//! Tables for people: columns aligned, numbers to the right, text to the left.

/// A table under construction.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// One field of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Aligned left.
    Text(String),
    /// Aligned right.
    Number(String),
}

impl Cell {
    /// A number with `decimals` digits after the point, and its unit.
    pub fn decimal(value: f64, decimals: usize, unit: &str) -> Self {
        if value.is_finite() {
            Self::Number(format!("{value:.decimals$}{unit}"))
        } else {
            Self::Number("-".to_owned())
        }
    }

    /// A number, or a dash where there is none.
    pub fn maybe<T: Into<u64>>(value: Option<T>) -> Self {
        value.map_or_else(|| Self::Number("-".to_owned()), |value| value.into().into())
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) => text,
        }
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Number(grouped(value))
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        u64::from(value).into()
    }
}

impl From<u16> for Cell {
    fn from(value: u16) -> Self {
        u64::from(value).into()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Table {
    /// An empty table with these column heads.
    pub fn new<const N: usize>(heads: [&str; N]) -> Self {
        Self { heads: heads.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// The same when how many there are is known only now.
    pub fn with_heads(heads: Vec<String>) -> Self {
        Self { heads, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.cells(cells.into());
    }

    /// The same when how many there are is known only now.
    pub fn cells(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.heads.len(), "a row has as many cells as the table has heads");
        self.rows.push(cells);
    }

    /// The table as text, each line ended; lines have no blanks at their end.
    pub fn render(&self) -> String {
        let columns = self.heads.len();
        // A column whose fields are all numbers has its head at the right, too.
        let right: Vec<bool> = (0..columns)
            .map(|column| {
                let mut fields = self.rows.iter().map(|row| &row[column]);
                !self.rows.is_empty() && fields.all(|cell| matches!(cell, Cell::Number(_)))
            })
            .collect();
        let width: Vec<usize> = (0..columns)
            .map(|column| {
                let fields = self.rows.iter().map(|row| row[column].as_str());
                let all = fields.chain([self.heads[column].as_str()]);
                all.map(|text| text.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        let heads = self.heads.iter().zip(&right);
        push_line(&mut text, &width, heads.map(|(head, &right)| (head.as_str(), right)));
        for row in &self.rows {
            let fields = row.iter().map(|cell| (cell.as_str(), matches!(cell, Cell::Number(_))));
            push_line(&mut text, &width, fields);
        }
        text
    }
}

fn push_line<'a>(
    text: &mut String,
    width: &[usize],
    fields: impl Iterator<Item = (&'a str, bool)>,
) {
    let start = text.len();
    for ((field, right), &width) in fields.zip(width) {
        if text.len() > start {
            text.push_str("  ");
        }
        let field = if right { format!("{field:>width$}") } else { format!("{field:<width$}") };
        text.push_str(&field);
    }
    text.truncate(text.trim_end().len().max(start));
    text.push('\n');
}

/// A whole number with a comma between its thousands, which means nothing to a shell: 1,234,567.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_right_and_text_left() {
        let mut table = Table::new(["name", "packets", "note"]);
        table.row(["a".into(), 1_234_567_u64.into(), "x".into()]);
        table.row(["longer".into(), 7_u64.into(), "".into()]);
        assert_eq!(
            table.render(),
            "name      packets  note\n\
             a       1,234,567  x\n\
             longer          7\n"
        );
    }

    #[test]
    fn a_dash_stands_for_a_number_that_is_not_there() {
        let mut table = Table::new(["cpu", "share"]);
        table.row([Cell::maybe(None::<u16>), Cell::decimal(f64::NAN, 1, " %")]);
        table.row([Cell::maybe(Some(3_u16)), Cell::decimal(12.34, 1, " %")]);
        assert_eq!(table.render(), "cpu   share\n  -       -\n  3  12.3 %\n");
    }

    #[test]
    fn an_empty_table_is_its_heads() {
        assert_eq!(Table::new(["a", "b"]).render(), "a  b\n");
    }

    #[test]
    fn width_is_counted_in_letters_not_bytes() {
        let mut table = Table::new(["name", "n"]);
        table.row(["µµµµµ".into(), 1_u64.into()]);
        table.row(["abcdef".into(), 2_u64.into()]);
        assert_eq!(table.render(), "name    n\nµµµµµ   1\nabcdef  2\n");
    }

    #[test]
    fn thousands_are_marked() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (65_536, "65,536")] {
            assert_eq!(grouped(value), text);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }
}
