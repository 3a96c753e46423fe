//! A family of networks as data: how specs of its members are written, which function makes them, and, of grids, switches
//! and hosts, which link each port uses, and from which ranks distances are measured.
//!
//! Each family's file has its row, and [`super::catalogue`] lists the rows.

use std::fmt;

use super::measure::Adjacency;
use super::{text, Link, Routing, Topology, TopologyError, TopologyKind, MAX_LINKS, MAX_RANKS};
use crate::units::{LinkId, NodeId, Port, Rank};

/// A topology, or why there is none.
pub(super) type TopologyResult = Result<Topology, TopologyError>;

/// A family of networks. [`Topology::parse`] makes its members from specs such as [`Family::example`].
pub struct Family {
    /// The word with which its specs begin, in kebab-case.
    pub name: &'static str,
    /// An example of a spec.
    pub example: &'static str,
    /// The example in one line.
    pub summary: &'static str,
    /// The paper or the product that introduced the family.
    pub source: &'static str,
    /// The parameters that follow the name, and the constructor that takes them.
    pub(super) form: SpecForm,
}

/// The parameters after the colon of a spec, with the function that makes a topology from them.
#[derive(Clone, Copy)]
pub(super) enum SpecForm {
    /// `ring:8`
    Number(fn(usize) -> TopologyResult),
    /// `kautz:4:1`
    Numbers(fn(usize, usize) -> TopologyResult),
    /// `torus:4x4x2`
    Sizes(fn(&[usize]) -> TopologyResult),
    /// `twisted-torus:8x4`
    TwoSizes(fn(usize, usize) -> TopologyResult),
    /// `circulant:16:3,4`: the text before the second colon, and the list after it. `None` if one has the wrong form.
    List(fn(&str, &str) -> Option<TopologyResult>),
    /// `hosts:1,2,3`, or another form without a second colon. `None` if it is the wrong one.
    ListAlone(fn(&str) -> Option<TopologyResult>),
    /// Any other form: the texts between the colons. `None` if one has the wrong form.
    Parts(fn(&[&str]) -> Option<TopologyResult>),
}

/// What all members of a family of grids, switches or hosts have in common besides their links. Other families have none:
/// their ports are links in turn, and they have no traits.
#[derive(Clone, Copy)]
pub(super) struct FamilyLayout {
    pub family: &'static Family,
    pub ports: PortRule,
    pub ends: Ends,
    pub traits: Traits,
}

impl PartialEq for FamilyLayout {
    fn eq(&self, other: &FamilyLayout) -> bool {
        self.family == other.family
    }
}

impl fmt::Debug for FamilyLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.family.fmt(f)
    }
}

/// Which link of a rank a port uses.
#[derive(Clone, Copy)]
pub(super) enum PortRule {
    /// A rank's ports are its links in order.
    InTurn,
    /// Every port uses the rank's only cable, link `2r` of rank `r`.
    Uplink,
    /// A function of the sizes of the grid, the rank and the port.
    Formula(fn(&[usize], Rank, Port) -> Option<LinkId>),
    /// The first link to the upper neighbour in a dimension, and the last link to the lower one. The function returns
    /// that neighbour, given the rank, the dimension, and true for the upper one.
    Neighbour(fn(&Topology, Rank, usize, bool) -> Option<NodeId>),
}

/// The ranks to measure distances from: one of them has another rank at the greatest distance.
#[derive(Clone, Copy)]
pub(super) enum Ends {
    /// Rank 0: all ranks are alike, or it is at a corner.
    First,
    /// All, unless [`Topology::is_cayley`].
    All,
    /// These.
    Some(fn(&Topology) -> Vec<Rank>),
}

/// Properties of the cables.
#[derive(Clone, Copy)]
pub(super) struct Traits {
    /// See [`Topology::is_torus`].
    pub is_torus: bool,
    /// See [`Topology::has_cabled_ports`].
    pub has_cabled_ports: bool,
    /// See [`Topology::is_irregular`].
    pub is_irregular: bool,
    /// Whether ranks that differ in one coordinate reach each other by links of that dimension.
    pub is_ordered: bool,
}

impl Traits {
    pub const NONE: Traits =
        Traits { is_torus: false, has_cabled_ports: false, is_irregular: false, is_ordered: false };
}

impl Family {
    /// A member's spec; `parameters` are what follows the colon.
    pub(super) fn spec(&self, parameters: impl fmt::Display) -> String {
        format!("{}:{parameters}", self.name)
    }

    /// The member with these parameters, which are what follows the colon; `None` where they have not the form that the
    /// family has.
    pub(super) fn read(&self, parameters: &str) -> Option<TopologyResult> {
        let parts: Vec<&str> = parameters.split(':').collect();
        match (self.form, parts.as_slice()) {
            (SpecForm::Number(make), [n]) => Some(make(text::number(n)?)),
            (SpecForm::Numbers(make), [a, b]) => Some(make(text::number(a)?, text::number(b)?)),
            (SpecForm::Sizes(make), [sizes]) => Some(make(&text::sizes(sizes)?)),
            (SpecForm::TwoSizes(make), [sizes]) => match text::sizes(sizes)?[..] {
                [a, b] => Some(make(a, b)),
                _ => None,
            },
            (SpecForm::List(make), [first, list]) => make(first, list),
            (SpecForm::ListAlone(make), [list]) => make(list),
            (SpecForm::Parts(make), parts) => make(parts),
            _ => None,
        }
    }

    /// Whether commas behind its name may be part of a list.
    pub(super) fn has_list(&self) -> bool {
        matches!(self.form, SpecForm::List(_) | SpecForm::ListAlone(_))
    }

    /// The error that there is no member with these parameters; `what` says what must hold.
    pub(super) fn unfit(&self, spec: String, what: &'static str) -> TopologyError {
        TopologyError::Sizes { spec, what, example: self.example }
    }

    /// How many ranks the member on a grid of these sizes has. Each rank accounts for `links` links at most.
    pub(super) fn check_grid(&self, sizes: &[usize], links: usize) -> Result<usize, TopologyError> {
        let spec = || self.spec(text::join(sizes));
        if sizes.is_empty() {
            return Err(TopologyError::Malformed { spec: spec(), example: self.example });
        }
        check_size(sizes, links, spec)
    }
}

impl PartialEq for Family {
    fn eq(&self, other: &Family) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Topology {
    /// A grid of ranks alone.
    pub(super) fn on_grid(layout: FamilyLayout, spec: String, sizes: &[usize], links: Vec<Link>) -> Topology {
        let ranks = sizes.iter().product();
        Topology { dimensions: sizes.to_vec(), ..Topology::member(layout, spec, ranks, ranks, links) }
    }

    /// A member of a family, without a grid.
    pub(super) fn member(
        layout: FamilyLayout,
        spec: String,
        ranks: usize,
        nodes: usize,
        links: Vec<Link>,
    ) -> Topology {
        let kind = TopologyKind::Member { layout, spec, parameters: Vec::new() };
        Topology::plain(kind, ranks, nodes, links)
    }

    /// Ranks that form no grid.
    pub(super) fn plain(kind: TopologyKind, ranks: usize, nodes: usize, links: Vec<Link>) -> Topology {
        let routing = Routing::default();
        let index = (!links.is_sorted_by_key(|link| link.source))
            .then(|| Adjacency::new(nodes, links.iter().map(|link| link.source)));
        let (hosts, dimensions, table) = (Vec::new(), Vec::new(), None);
        Topology { kind, ranks, nodes, hosts, dimensions, links, index, routing, table, placement: None }
    }
}

/// How many ranks these sizes make, each of which accounts for `links` links at most.
pub(super) fn check_size(
    sizes: &[usize],
    links: usize,
    spec: impl Fn() -> String,
) -> Result<usize, TopologyError> {
    if sizes.contains(&0) {
        return Err(TopologyError::Zero(spec()));
    }
    let ranks = sizes
        .iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size))
        .filter(|ranks| *ranks <= MAX_RANKS)
        .ok_or_else(|| TopologyError::TooLarge(spec()))?;
    match ranks.checked_mul(links) {
        Some(links) if links <= MAX_LINKS => Ok(ranks),
        _ => Err(TopologyError::TooManyLinks(spec())),
    }
}
