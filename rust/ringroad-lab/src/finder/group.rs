//! Groups with two generators: Z_m, Z_m x Z_k and the semidirect products Z_m x| Z_k.

use std::fmt;

/// Pairs `(x, c)` of `Z_m x Z_k` with `(x, c)(y, e) = (x + r^c y, c + e)`, where `r^k = 1` modulo `m`. The number of a
/// pair is `x * k + c`. With `k = 1` this is the cyclic group, with `r = 1` a direct product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetacyclicGroup {
    m: usize,
    k: usize,
    r: usize,
    /// The powers `r^c` for all `c`.
    powers: Vec<usize>,
}

impl MetacyclicGroup {
    /// The group; `None` if `r^k` is not 1.
    pub(super) fn new(m: usize, k: usize, r: usize) -> Option<MetacyclicGroup> {
        let mut powers = vec![1 % m];
        for _ in 1..k {
            powers.push(powers.last()? * r % m);
        }
        (powers.last()? * r % m == 1 % m).then_some(MetacyclicGroup { m, k, r, powers })
    }

    pub(super) fn cyclic(m: usize) -> MetacyclicGroup {
        MetacyclicGroup { m, k: 1, r: 1 % m, powers: vec![1 % m] }
    }

    pub(super) fn order(&self) -> usize {
        self.m * self.k
    }

    /// Whether elements commute.
    pub(super) fn is_abelian(&self) -> bool {
        self.k == 1 || self.r % self.m == 1 % self.m
    }

    /// The product `g * generator` for every `g`.
    pub(super) fn moved_by(&self, generator: usize) -> Vec<u32> {
        let (y, e) = (generator / self.k, generator % self.k);
        let place = |x: usize, c: usize| {
            let x = x + self.powers[c] * y % self.m;
            let c = c + e;
            let (x, c) = (if x >= self.m { x - self.m } else { x }, if c >= self.k { c - self.k } else { c });
            (x * self.k + c) as u32
        };
        (0..self.m).flat_map(|x| (0..self.k).map(move |c| (x, c))).map(|(x, c)| place(x, c)).collect()
    }

    /// The inverse of an element: `(x, c)^-1 = (-r^-c x, -c)`.
    pub(super) fn inverse(&self, element: usize) -> usize {
        let (x, c) = (element / self.k, element % self.k);
        let back = (self.k - c) % self.k;
        let x = (self.m - self.powers[back] * x % self.m) % self.m;
        x * self.k + back
    }

    /// The spec of the Cayley graph with these generators.
    pub(super) fn cayley(&self, generators: &[usize]) -> String {
        let pair = |g: &usize| match self.k {
            1 => g.to_string(),
            k => format!("{}.{}", g / k, g % k),
        };
        let list: Vec<String> = generators.iter().map(pair).collect();
        format!("{self}:{}", list.join(","))
    }
}

impl fmt::Display for MetacyclicGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.k {
            1 => write!(f, "directed-circulant:{}", self.m),
            k => write!(f, "cayley:z{}*z{k}^{}", self.m, self.r),
        }
    }
}

/// The groups of an order for all `(m, k, r)` with `k > 1`; for each `m` and `k` the direct product comes first. Values
/// of `r` that generate the same group are not merged.
pub(super) fn products(order: usize) -> Vec<MetacyclicGroup> {
    let pairs = (2..order).filter(|k| order.is_multiple_of(*k)).map(|k| (order / k, k));
    pairs.flat_map(|(m, k)| (1..m.max(2)).filter_map(move |r| MetacyclicGroup::new(m, k, r))).collect()
}
