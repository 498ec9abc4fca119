//! Decisions of the disciplines: arguments in, an answer out.

/// The first server with least, if that is below `bound`.
pub fn shortest(held: impl Iterator<Item = usize>, bound: usize) -> Option<usize> {
    let least = held.enumerate().min_by_key(|(_, held)| *held)?;
    (least.1 < bound).then_some(least.0)
}

/// The shortest of `count` queues drawn by lot, different ones; of equal ones the first drawn.
/// `lot` draws below a bound.
pub fn shortest_of(lengths: &[usize], count: u32, mut lot: impl FnMut(u32) -> u32) -> usize {
    let all = lengths.len() as u32;
    let mut drawn: Vec<usize> = Vec::with_capacity(count as usize);
    while (drawn.len() as u32) < count.clamp(1, all) {
        let one = lot(all) as usize;
        if !drawn.contains(&one) {
            drawn.push(one);
        }
    }
    drawn.into_iter().min_by_key(|at| lengths[*at]).unwrap_or(0)
}

/// Servers that DARC reserves for short requests: their share of all work, rounded, at least one,
/// and never all: long ones would have none.
pub fn reserved_for(servers: u32, share_of_short: f64) -> u32 {
    if servers < 2 {
        return 0;
    }
    let wished = (f64::from(servers) * share_of_short).round() as u32;
    wished.clamp(1, servers - 1)
}
