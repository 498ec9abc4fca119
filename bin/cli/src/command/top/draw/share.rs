//! Shares a number of lines out among the parts of the screen.

/// How many lines a part needs, and how many it would like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// With fewer it shows nothing.
    pub(super) least: u16,
    /// With more it shows no more.
    pub(super) most: u16,
}

/// Lines for each part. The first ones get their least first; what is left is given out line by
/// line, round and round, so that one long list leaves room for the others.
pub(super) fn share(lines: u16, wishes: &[Wish]) -> Vec<u16> {
    let mut left = lines;
    let mut given: Vec<u16> = wishes
        .iter()
        .map(|wish| {
            let least = wish.least.min(wish.most);
            let part = if least <= left { least } else { 0 };
            left -= part;
            part
        })
        .collect();
    loop {
        let before = left;
        for (part, wish) in given.iter_mut().zip(wishes) {
            if left > 0 && *part > 0 && *part < wish.most {
                *part += 1;
                left -= 1;
            }
        }
        if left == before {
            return given;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(least: u16, most: u16) -> Wish {
        Wish { least, most }
    }

    #[test]
    fn everybody_gets_all_when_there_is_enough() {
        assert_eq!(share(20, &[wish(2, 5), wish(2, 9), wish(0, 0)]), [5, 9, 0]);
    }

    #[test]
    fn a_long_list_leaves_room_for_the_others() {
        assert_eq!(share(12, &[wish(2, 4), wish(2, 1000), wish(2, 3)]), [4, 5, 3]);
    }

    #[test]
    fn who_comes_last_goes_without_when_there_is_too_little() {
        assert_eq!(share(5, &[wish(3, 9), wish(2, 9), wish(2, 9)]), [3, 2, 0]);
        assert_eq!(share(4, &[wish(3, 9), wish(2, 9)]), [4, 0]);
        assert_eq!(share(0, &[wish(3, 9)]), [0]);
    }
}
