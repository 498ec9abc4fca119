//! What papers say, with what there is here beside it.

/// A paper, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paper {
    /// What it is called.
    pub title: String,
    /// Its figures, tables and numbers.
    pub rows: Vec<PaperRow>,
}

/// A figure, a table or a number of a paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaperRow {
    /// Where it is in the paper.
    pub there: String,
    /// What it says.
    pub says: String,
    /// What is here instead, or why nothing is.
    pub here: String,
    /// Figures that are about it, by name.
    pub figures: Vec<String>,
    /// Numbers of the runs.
    pub ours: Vec<Ours>,
}

/// A number of the runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// Of what.
    pub what: String,
    /// With its unit and range; nothing where it was not run.
    pub number: Option<String>,
}

impl Ours {
    /// The number, or that there is none.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.number.as_deref().unwrap_or("not run")
    }
}
