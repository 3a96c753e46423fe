//! Groups of motions, given by the products with their generators.
//!
//! In a Cayley graph every port is a generator `s`: it leads from element `x` to `x · s`. The motion that takes the
//! identity, position 0, to `r` takes `x` to `r · x`, and so maps every port to itself. A path of ports from the
//! identity to `x` leads from `r` to `r · x`. So the products with the generators determine all other products.

use serde::{Deserialize, Serialize};

/// A finite group with generators. Its elements are `0..size`, and 0 is the identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<usize>>", into = "Vec<Vec<usize>>")]
pub struct Group {
    /// For every generator `s`, the products `x · s`.
    products: Vec<Vec<usize>>,
    /// For every element but the identity, the element before it on a shortest path from the identity, and the last
    /// generator of this path.
    last: Vec<(u32, u32)>,
    inverses: Vec<usize>,
}

impl Group {
    /// The group with these products `x · s` for each generator `s`; `None` where they are not those of a group that
    /// the generators generate. This checks that multiplication by any generator from the left commutes with all of
    /// them.
    pub fn new(products: Vec<Vec<usize>>) -> Option<Group> {
        let size = products.first()?.len();
        let fits = |row: &Vec<usize>| row.len() == size && is_permutation(row);
        if size == 0 || size > u32::MAX as usize || !products.iter().all(fits) {
            return None;
        }
        let (order, last) = ways(&products, size)?;
        let mut inverses = vec![0; size];
        let mut divided: Vec<Option<Vec<usize>>> = vec![None; products.len()];
        for (generator, row) in products.iter().enumerate() {
            // The image of each element under the motion that takes the identity to this generator.
            let mut moved = vec![row[0]; size];
            for &x in &order[1..] {
                let (before, by) = last[x];
                moved[x] = products[by as usize][moved[before as usize]];
            }
            let keeps = |p: &Vec<usize>| (0..size).all(|x| moved[p[x]] == p[moved[x]]);
            if !is_permutation(&moved) || !products.iter().all(keeps) {
                return None;
            }
            let mut back = vec![0; size];
            moved.iter().enumerate().for_each(|(x, to)| back[*to] = x);
            divided[generator] = Some(back);
        }
        for &x in &order[1..] {
            let (before, by) = last[x];
            inverses[x] = divided[by as usize].as_ref().expect("every generator has its motion")
                [inverses[before as usize]];
        }
        Some(Group { products, last, inverses })
    }

    /// About how many bytes of memory the group takes.
    pub(super) fn footprint(&self) -> usize {
        let products: usize = self.products.iter().map(|row| size_of_val(&**row)).sum();
        products + size_of_val(&*self.last) + size_of_val(&*self.inverses)
    }

    /// How many elements the group has.
    pub fn size(&self) -> usize {
        self.last.len()
    }

    /// For every generator `s`, the products `x · s`.
    pub(super) fn products(&self) -> &[Vec<usize>] {
        &self.products
    }

    /// The product `r · x`.
    pub fn product(&self, r: usize, x: usize) -> usize {
        if x == 0 {
            return r;
        }
        let (before, by) = self.last[x];
        self.products[by as usize][self.product(r, before as usize)]
    }

    /// The element whose product with `x` is the identity.
    pub fn inverse(&self, x: usize) -> usize {
        self.inverses[x]
    }
}

fn is_permutation(row: &[usize]) -> bool {
    let mut seen = vec![false; row.len()];
    row.iter().all(|x| seen.get_mut(*x).is_some_and(|seen| !std::mem::replace(seen, true)))
}

/// The elements in the order of a breadth-first search from the identity, and for each element the one before it and
/// the generator that leads to it.
type Ways = (Vec<usize>, Vec<(u32, u32)>);

fn ways(products: &[Vec<usize>], size: usize) -> Option<Ways> {
    let mut last = vec![None; size];
    last[0] = Some((0, 0));
    let mut order = vec![0];
    let mut next = 0;
    while let Some(&x) = order.get(next) {
        next += 1;
        for (generator, row) in products.iter().enumerate() {
            let place = &mut last[row[x]];
            if place.is_none() {
                *place = Some((x as u32, generator as u32));
                order.push(row[x]);
            }
        }
    }
    Some((order, last.into_iter().collect::<Option<_>>()?))
}

impl TryFrom<Vec<Vec<usize>>> for Group {
    type Error = &'static str;

    fn try_from(products: Vec<Vec<usize>>) -> Result<Self, Self::Error> {
        Group::new(products).ok_or("these products with generators do not define a group")
    }
}

impl From<Group> for Vec<Vec<usize>> {
    fn from(group: Group) -> Self {
        group.products
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The semidirect product of Z7 and Z3: (x, c)(y, e) = (x + 2^c y, c + e), and (x, c) has the number 3 x + c.
    fn frobenius() -> Vec<Vec<usize>> {
        let product = |a: usize, b: usize| {
            let (x, c, y, e) = (a / 3, a % 3, b / 3, b % 3);
            (x + (1 << c) * y) % 7 * 3 + (c + e) % 3
        };
        [3, 1].map(|s| (0..21).map(|x| product(x, s)).collect()).to_vec()
    }

    #[test]
    fn products_and_inverses_are_those_of_the_group() {
        let group = Group::new(frobenius()).unwrap();
        assert_eq!(group.size(), 21);
        for a in 0..21 {
            assert_eq!((group.product(a, group.inverse(a)), group.product(group.inverse(a), a)), (0, 0));
            for b in 0..21 {
                for c in [0, 5, 13, 20] {
                    let left = group.product(group.product(a, b), c);
                    assert_eq!(left, group.product(a, group.product(b, c)));
                }
            }
        }
        let text = serde_json::to_string(&group).unwrap();
        assert_eq!(serde_json::from_str::<Group>(&text).unwrap(), group);
    }

    #[test]
    fn what_is_no_group_is_refused() {
        let mut twisted = frobenius();
        twisted[0].swap(4, 9);
        assert!(Group::new(twisted).is_none(), "a permutation that no motion keeps");
        assert!(Group::new(vec![vec![1, 0, 3, 2]]).is_none(), "not all are reached");
        assert!(Group::new(vec![vec![1, 1]]).is_none(), "no permutation");
        assert!(Group::new(vec![vec![1, 2, 9]]).is_none(), "no element");
        assert!(Group::new(vec![]).is_none(), "no generator");
        assert!(serde_json::from_str::<Group>("[[1,0],[0,0]]").is_err());
    }
}
