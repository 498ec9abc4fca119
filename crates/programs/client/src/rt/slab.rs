//! Things by small numbers, which are used again.

/// A table whose free places are filled first.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Puts in what `make` makes of its number.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(usize) -> T) -> &mut T {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[number].insert(make(number))
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.places.get_mut(number)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        let thing = self.places.get_mut(number)?.take()?;
        self.free.push(number);
        Some(thing)
    }

    /// All of them; nothing is left.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.free.clear();
        std::mem::take(&mut self.places).into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_number_is_used_again_and_a_used_one_is_not() {
        let mut slab = Slab::new();
        let insert = |slab: &mut Slab<usize>| *slab.insert_with(|number| number);
        assert_eq!([insert(&mut slab), insert(&mut slab), insert(&mut slab)], [0, 1, 2]);
        assert_eq!((slab.remove(1), slab.remove(1), slab.remove(9)), (Some(1), None, None));
        assert_eq!([insert(&mut slab), insert(&mut slab)], [1, 3]);
        assert_eq!(slab.get_mut(3), Some(&mut 3));
        assert_eq!(slab.drain(), [0, 1, 2, 3]);
        assert_eq!(insert(&mut slab), 0);
    }
}
