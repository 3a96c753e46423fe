//! Cayley graphs: ranks are the elements of a group, and port `p` multiplies by generator `p` from the right.
//! Multiplication from the left maps each port to itself, so that all ranks are alike.
//!
//! ```text
//! cayley:z8:1,3                  numbers modulo 8; 0 → 1 and 3
//! cayley:d4:1.0,0.1              rotations and reflections of a square, r^x s^c written x.c
//! cayley:z7*z3^2:1.0,0.1         (x,c)(y,e) = (x + 2^c y, c + e), written x.c; 2^3 must be 1 modulo 7
//! cayley:s4:2134,1324,1243       permutations, written as the images of 1234
//! cayley:z3xz3:1.0,0.1           products of any of these: an element is written as the factors' elements in a row
//! ```
//!
//! Elements are numbered like those of a C array over their parts, the last part fastest: (x, c) with c < K is x·K + c.
//! Permutations are numbered in lexicographic order. Rank 0 is the identity, and with `d` generators link `d·rank + p`
//! leaves `rank` by port `p`.

use std::fmt;

use super::family::{check_size, Family, SpecForm};
use super::{text, Topology, TopologyError, MAX_RANKS};
use crate::units::Rank;

pub(super) static CAYLEY: Family = Family {
    name: "cayley",
    example: "cayley:z8*z2^3:5.1,3.0",
    summary: "a group (z8, z8*z2^3, d13, s4, z3xz3) and generators: (x,c)(y,e) = (x + 3^c y, c + e)",
    source: "Cayley: Desiderata and suggestions: the theory of groups: graphical representation, American Journal of Mathematics 1(2), 1878",
    form: SpecForm::List(|group, generators| Some(read(group, generators))),
};

/// A finite group with numbered elements, of which 0 is the identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CayleyGroup {
    factors: Vec<Factor>,
    order: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Factor {
    Cyclic(usize),
    /// Pairs (x, c), multiplied as (x, c)(y, e) = (x + `powers[c]` y, c + e).
    Semidirect {
        size: usize,
        powers: Vec<usize>,
    },
    /// The rotations and reflections of a polygon with this many corners.
    Dihedral(usize),
    /// The permutations of this many things.
    Symmetric(usize),
}

/// The most things of a symmetric group: a permutation is written with one digit for each of them.
const MOST_THINGS: usize = 9;

impl Factor {
    fn order(&self) -> usize {
        match self {
            Factor::Cyclic(size) => *size,
            Factor::Semidirect { size, powers } => size * powers.len(),
            Factor::Dihedral(size) => 2 * size,
            Factor::Symmetric(things) => (1..=*things).product(),
        }
    }

    fn multiply(&self, a: usize, b: usize) -> usize {
        let pair = |size: usize, turns: usize, power: &dyn Fn(usize) -> usize| {
            let ((x, c), (y, e)) = ((a / turns, a % turns), (b / turns, b % turns));
            (x + power(c) * y) % size * turns + (c + e) % turns
        };
        match self {
            Factor::Cyclic(size) => (a + b) % size,
            Factor::Semidirect { size, powers } => pair(*size, powers.len(), &|c| powers[c]),
            Factor::Dihedral(size) => pair(*size, 2, &|c| if c == 0 { 1 } else { size - 1 }),
            Factor::Symmetric(things) => {
                let (outer, inner) = (permutation(*things, a), permutation(*things, b));
                place(&inner.into_iter().map(|thing| outer[thing]).collect::<Vec<usize>>())
            }
        }
    }

    /// Reads an element from as many parts as this factor needs; `None` where they name no element.
    fn read<'a>(&self, parts: &mut impl Iterator<Item = &'a str>) -> Option<usize> {
        let mut below = |most: usize| parts.next().and_then(text::number).filter(|number| *number < most);
        match self {
            Factor::Cyclic(size) => below(*size),
            Factor::Semidirect { size, powers } => Some(below(*size)? * powers.len() + below(powers.len())?),
            Factor::Dihedral(size) => Some(below(*size)? * 2 + below(2)?),
            Factor::Symmetric(things) => {
                let digits: Vec<usize> = parts
                    .next()?
                    .chars()
                    .map(|c| c.to_digit(10).map(|d| d as usize))
                    .collect::<Option<_>>()?;
                let mut sorted = digits.clone();
                sorted.sort_unstable();
                let complete = sorted.into_iter().eq(1..=*things);
                complete.then(|| place(&digits.iter().map(|digit| digit - 1).collect::<Vec<usize>>()))
            }
        }
    }

    fn write(&self, element: usize) -> String {
        let pair = |turns: usize| format!("{}.{}", element / turns, element % turns);
        match self {
            Factor::Cyclic(_) => element.to_string(),
            Factor::Semidirect { powers, .. } => pair(powers.len()),
            Factor::Dihedral(_) => pair(2),
            Factor::Symmetric(things) => {
                permutation(*things, element).into_iter().map(|thing| (thing + 1).to_string()).collect()
            }
        }
    }
}

/// The permutation with this number in lexicographic order.
fn permutation(things: usize, place: usize) -> Vec<usize> {
    let (mut left, mut rest) = ((0..things).collect::<Vec<usize>>(), place);
    let mut orders: usize = (1..=things).product();
    let mut take = |left_over: usize| {
        orders /= left_over;
        let thing = left.remove(rest / orders);
        rest %= orders;
        thing
    };
    (1..=things).rev().map(&mut take).collect()
}

/// The inverse of [`permutation`].
fn place(permutation: &[usize]) -> usize {
    let smaller = |at: usize| permutation[at + 1..].iter().filter(|later| **later < permutation[at]).count();
    (0..permutation.len()).fold(0, |place, at| place * (permutation.len() - at) + smaller(at))
}

impl CayleyGroup {
    /// Reads `z8`, `z64*z16^11`, `d13`, `s4`, or a product of these such as `z3xz3`.
    pub fn parse(text: &str) -> Result<CayleyGroup, TopologyError> {
        let factors = text.split('x').map(|part| factor(text, part)).collect::<Result<Vec<Factor>, _>>()?;
        let order = factors.iter().try_fold(1usize, |order, factor| order.checked_mul(factor.order()));
        let order = order.filter(|order| *order <= MAX_RANKS);
        let order = order.ok_or_else(|| wrong(text, format!("it has more than {MAX_RANKS} elements")))?;
        Ok(CayleyGroup { factors, order })
    }

    /// How many elements the group has.
    pub fn order(&self) -> usize {
        self.order
    }

    /// The product of the elements `a` and `b`.
    pub fn multiply(&self, a: usize, b: usize) -> usize {
        let (mut rest_a, mut rest_b, mut stride, mut product) = (a, b, 1, 0);
        for factor in self.factors.iter().rev() {
            let order = factor.order();
            product += stride * factor.multiply(rest_a % order, rest_b % order);
            (rest_a, rest_b, stride) = (rest_a / order, rest_b / order, stride * order);
        }
        product
    }

    /// The number of a written element, such as `34.1` of `z64*z16^11`; `None` where the text names no element.
    pub fn element(&self, text: &str) -> Option<usize> {
        let mut parts = text.split('.');
        let read =
            |element: usize, factor: &Factor| Some(element * factor.order() + factor.read(&mut parts)?);
        let element = self.factors.iter().try_fold(0, read)?;
        parts.next().is_none().then_some(element)
    }

    /// The element as text, which [`CayleyGroup::element`] reads.
    pub fn write(&self, element: usize) -> String {
        let mut rest = element;
        let mut parts = Vec::new();
        for factor in self.factors.iter().rev() {
            parts.push(factor.write(rest % factor.order()));
            rest /= factor.order();
        }
        parts.reverse();
        parts.join(".")
    }
}

impl fmt::Display for CayleyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |factor: &Factor| match factor {
            Factor::Cyclic(size) => format!("z{size}"),
            Factor::Semidirect { size, powers } => {
                let power = powers.get(1).copied().unwrap_or(1);
                format!("z{size}*z{}^{power}", powers.len())
            }
            Factor::Dihedral(size) => format!("d{size}"),
            Factor::Symmetric(things) => format!("s{things}"),
        };
        f.write_str(&self.factors.iter().map(write).collect::<Vec<_>>().join("x"))
    }
}

fn wrong(group: &str, what: String) -> TopologyError {
    TopologyError::Graph { spec: CAYLEY.spec(group), what }
}

/// One part of a product: `z8`, `z64*z16^11`, `d13` or `s4`.
fn factor(group: &str, part: &str) -> Result<Factor, TopologyError> {
    let form = || wrong(group, format!("{part:?} is not a group; write z8, z64*z16^11, d13, s4 or z3xz3"));
    let size = |letter: char, text: &str| {
        let size = text
            .strip_prefix(letter)
            .and_then(super::text::number)
            .filter(|size| *size > 0)
            .ok_or_else(form)?;
        match size <= MAX_RANKS {
            true => Ok(size),
            false => Err(wrong(group, format!("it has more than {MAX_RANKS} elements"))),
        }
    };
    if let Some((left, right)) = part.split_once('*') {
        let (turns, power) = right.split_once('^').ok_or_else(form)?;
        let (m, k) = (size('z', left)?, size('z', turns)?);
        let power = text::number(power).ok_or_else(form)?;
        return semidirect(group, m, k, power);
    }
    match part.chars().next() {
        Some('z') => size('z', part).map(Factor::Cyclic),
        Some('d') => size('d', part).map(Factor::Dihedral),
        Some('s') => match size('s', part)? {
            things if things <= MOST_THINGS => Ok(Factor::Symmetric(things)),
            _ => Err(wrong(group, format!("permutations have at most {MOST_THINGS} things"))),
        },
        _ => Err(form()),
    }
}

fn semidirect(group: &str, m: usize, k: usize, power: usize) -> Result<Factor, TopologyError> {
    if m.checked_mul(k).is_none_or(|order| order > MAX_RANKS) {
        return Err(wrong(group, format!("it has more than {MAX_RANKS} elements")));
    }
    let mut powers = vec![1 % m];
    for c in 1..=k {
        powers.push(powers[c - 1] * (power % m) % m);
    }
    if powers.pop() != Some(1 % m) {
        let advice = format!("write a number whose power {k} is 1 modulo {m}");
        return Err(wrong(
            group,
            format!("{power}^{k} is not 1 modulo {m}, so z{m}*z{k}^{power} is not a group; {advice}"),
        ));
    }
    Ok(Factor::Semidirect { size: m, powers })
}

impl Topology {
    /// The Cayley graph of a group: each element has a link to its product with each generator, in the order of the
    /// generators.
    pub fn cayley(group: &CayleyGroup, generators: &[usize]) -> Result<Topology, TopologyError> {
        let written = || generators.iter().map(|element| group.write(*element)).collect::<Vec<_>>().join(",");
        let spec = || CAYLEY.spec(format!("{group}:{}", written()));
        let refuse = |what: String| Err(TopologyError::Graph { spec: spec(), what });
        check_size(&[group.order()], generators.len(), spec)?;
        if let Some(strange) = generators.iter().find(|element| **element >= group.order()) {
            return refuse(format!(
                "elements are numbered 0 to {}, which {strange} is not",
                group.order() - 1
            ));
        }
        if generators.contains(&0) {
            return refuse("the identity joins every rank to itself; leave it out".to_owned());
        }
        Topology::regular(spec(), group.order(), generators.len(), |rank: Rank, port| {
            group.multiply(rank, generators[port])
        })
    }
}

/// Reads the two parts of `cayley:group:generators` after the first colon.
fn read(group: &str, generators: &str) -> Result<Topology, TopologyError> {
    let group = CayleyGroup::parse(group)?;
    let element = |text: &str| {
        let text = text.trim();
        group.element(text).ok_or_else(|| {
            let example = group.write(group.order() - 1);
            wrong(
                &group.to_string(),
                format!("{text:?} is not an element of the group; write elements such as {example}"),
            )
        })
    };
    let generators = generators.split(',').map(element).collect::<Result<Vec<usize>, _>>()?;
    Topology::cayley(&group, &generators)
}
