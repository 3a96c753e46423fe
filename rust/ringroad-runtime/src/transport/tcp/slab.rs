//! Values under numbers that the slab gives out.

/// Numbers are used again once their values are removed.
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps a value, and returns its number.
    pub fn insert(&mut self, value: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            u32::try_from(self.values.len() - 1).expect("fewer requests than 2^32 are in flight")
        });
        self.values[number as usize] = Some(value);
        number
    }

    /// The value under this number, if there is one.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.values.get_mut(number as usize)?.as_mut()
    }

    /// Takes the value under this number, if there is one.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.values.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slab = Slab::default();
        assert_eq!((slab.insert('a'), slab.insert('b')), (0, 1));
        assert_eq!((slab.remove(0), slab.remove(0), slab.remove(7)), (Some('a'), None, None));
        assert!(!slab.is_empty());
        assert_eq!((slab.insert('c'), slab.get_mut(0).copied(), slab.get_mut(2)), (0, Some('c'), None));
        assert_eq!((slab.remove(0), slab.remove(1)), (Some('c'), Some('b')));
        assert!(slab.is_empty());
    }
}
