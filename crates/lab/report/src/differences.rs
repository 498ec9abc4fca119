//! What two reports of the same figures say differently.

/// What two reports say differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Claims of which both reports know something.
    pub claims: usize,
    /// Claims that hold in one, and do not in the other.
    pub flips: Vec<ClaimChange>,
    /// Claims that one report decides, and that the other leaves open.
    pub opens: Vec<ClaimChange>,
    /// Cells of maps that are in both.
    pub cells: usize,
    /// Cells that two different series win, or that only one report finds to be served.
    pub disagree: Vec<CellChange>,
    /// Cells that have a winner in one report, and none in the other.
    pub undecided: Vec<CellChange>,
    /// Figures that only one of the reports has.
    pub lonely: Vec<String>,
}

/// A claim of which two reports say different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimChange {
    /// Of which figure.
    pub figure: String,
    /// What is claimed.
    pub claim: String,
    /// What the first report says: `holds in 9 of 10 runs`.
    pub first: String,
    /// What the other one says.
    pub other: String,
}

/// A cell of a map that two reports give to different series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellChange {
    /// Of which figure, and which of its panels.
    pub figure: String,
    /// Where, in words.
    pub at: String,
    /// Who wins in the first report.
    pub first: String,
    /// Who wins in the other one.
    pub other: String,
}

impl std::fmt::Display for Differences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { claims, flips, opens, cells, disagree, undecided, lonely } = self;
        write!(
            f,
            "Of {claims} claims {} flip, and {} are open with one set of seeds only.",
            flips.len(),
            opens.len()
        )?;
        if *cells > 0 {
            write!(
                f,
                " Of {cells} cells of maps {} disagree, and {} have a winner with one set only.",
                disagree.len(),
                undecided.len()
            )?;
        }
        if !lonely.is_empty() {
            write!(f, " Only in one of the two: {}.", lonely.join(", "))?;
        }
        Ok(())
    }
}
