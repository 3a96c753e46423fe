//! The catalogue: the families and operators of which specs are made, as data. The parser, the messages that show valid
//! specs, and the list of `ringroad topology` derive from it.

use super::distance_regular::NAMED;
use super::expression::{cut, Takes};
use super::family::{Family, TopologyResult};
use super::operators::PRODUCT;
use super::text::{number, ratio, FILES};
use super::without::Cut;
use super::{
    cayley, circulant, distance_regular, fat_tree, hamming_mesh, hosts, hypercube, hyperx, kautz, mesh,
    switch, torus, twisted_torus, Topology,
};

/// Every family.
static FAMILIES: &[&Family] = &[
    &torus::RING,
    &torus::TORUS,
    &mesh::MESH,
    &twisted_torus::TWISTED_TORUS,
    &hyperx::HYPERX,
    &hamming_mesh::HAMMING_MESH,
    &hypercube::HYPERCUBE,
    &hypercube::TWISTED_HYPERCUBE,
    &switch::SWITCH,
    &fat_tree::FAT_TREE,
    &hosts::HOSTS,
    &circulant::CIRCULANT,
    &circulant::DIRECTED_CIRCULANT,
    &circulant::COMPLETE,
    &circulant::COMPLETE_BIPARTITE,
    &circulant::HAMMING,
    &kautz::KAUTZ,
    &kautz::GENERALIZED_KAUTZ,
    &kautz::DE_BRUIJN,
    &circulant::UNIRING,
    &circulant::BIRING,
    &cayley::CAYLEY,
    &distance_regular::ODD_GRAPH,
    &distance_regular::DOUBLED_ODD_GRAPH,
];

/// The example that stands for all graphs with a name of their own.
const NAMED_EXAMPLE: &str = "petersen";

/// An operation on graphs, as a spec writes it.
pub struct Operator {
    /// The name before the parentheses.
    pub name: &'static str,
    /// A spec.
    pub example: &'static str,
    /// What the example is, in one line.
    pub summary: &'static str,
    pub(super) takes: Takes,
    /// Makes the graph from the operands and the parameters after them; `None` if a parameter has the wrong form.
    pub(super) make: fn(&[Topology], &[&str]) -> Option<TopologyResult>,
}

/// Every operator.
static OPERATORS: [Operator; 9] = [
    Operator {
        name: "line",
        example: "line(petersen)",
        summary: "a rank for every link, with links to the links that start at its end",
        takes: Takes::One,
        make: |operands, _| Some(operands[0].line()),
    },
    Operator {
        name: "line-graph",
        example: "line-graph(petersen)",
        summary: "a rank for every cable, joined to the cables that share an end",
        takes: Takes::One,
        make: |operands, _| Some(operands[0].line_graph()),
    },
    Operator {
        name: "degree",
        example: "degree(ring:5, 2)",
        summary: "2 copies of every rank, each linked to all copies of its neighbours",
        takes: Takes::OneAndNumber,
        make: |operands, by| Some(operands[0].degree_expansion(number(by[0])?)),
    },
    Operator {
        name: "power",
        example: "power(complete:3, 2)",
        summary: "the Cartesian product of 2 copies",
        takes: Takes::OneAndNumber,
        make: |operands, by| Some(operands[0].power(number(by[0])?)),
    },
    Operator {
        name: "product",
        example: PRODUCT,
        summary: "the Cartesian product of two or more",
        takes: Takes::Several,
        make: |operands, _| Some(Topology::product(&operands.iter().collect::<Vec<&Topology>>())),
    },
    Operator {
        name: "transpose",
        example: "transpose(kautz:2:2)",
        summary: "every link reversed",
        takes: Takes::One,
        make: |operands, _| Some(operands[0].transpose()),
    },
    Operator {
        name: "bidirectional",
        example: "bidirectional(kautz:2:2)",
        summary: "every link, and its reverse",
        takes: Takes::One,
        make: |operands, _| Some(operands[0].bidirectional()),
    },
    Operator {
        name: "without",
        example: "without(torus:4x4, 0-1, 5>6)",
        summary: "without the cable from 0 to 1, and the link from 5 to 6",
        takes: Takes::OneAndCuts,
        make: |operands, by| {
            Some(operands[0].without(&by.iter().map(|text| cut(text)).collect::<Option<Vec<Cut>>>()?))
        },
    },
    Operator {
        name: "bottleneck",
        example: "bottleneck(torus:4x4, 2)",
        summary: "ranks that send and receive at most as much as 2 of their links carry",
        takes: Takes::OneAndNumber,
        make: |operands, by| Some(operands[0].behind_nics(ratio(by[0])?)),
    },
];

/// All families.
pub fn families() -> impl Iterator<Item = &'static Family> + Clone {
    FAMILIES.iter().copied()
}

/// All operators.
pub fn operators() -> impl Iterator<Item = &'static Operator> + Clone {
    OPERATORS.iter()
}

/// The names of all graphs that have one.
pub fn named_graphs() -> impl Iterator<Item = &'static str> + Clone {
    NAMED.iter().map(|graph| graph.0)
}

pub(super) fn family(name: &str) -> Option<&'static Family> {
    families().find(|family| family.name == name)
}

pub(super) fn operator(name: &str) -> Option<&'static Operator> {
    operators().find(|operator| operator.name == name)
}

/// An example of every family, and what there is besides: `ring:8, torus:4x4x2, ... or ...`.
pub(super) fn examples() -> String {
    let families: Vec<&str> = families().map(|family| family.example).collect();
    let graphs = "a named graph such as petersen, or an operator such as line(petersen)";
    format!("{}, {graphs}", families.join(", "))
}

/// How a spec of this family, with this operator or of the graph of this name may look.
pub(super) fn example(name: &str) -> &'static str {
    let spelled = family(name).map(|family| family.example);
    let spelled = spelled.or_else(|| operator(name).map(|operator| operator.example));
    spelled.or_else(|| named_graphs().find(|known| *known == name)).unwrap_or("ring:8")
}

/// Whatever a spec may begin with.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    let families = families().map(|family| family.name);
    families.chain(operators().map(|operator| operator.name)).chain(named_graphs())
}

/// What a spec can be, without operators: examples, each with a line of explanation for users.
pub fn kinds() -> Vec<(&'static str, String)> {
    let mut kinds: Vec<(&str, String)> =
        families().map(|family| (family.example, family.summary.to_owned())).collect();
    let others: Vec<&str> = named_graphs().filter(|name| *name != NAMED_EXAMPLE).collect();
    kinds.push((NAMED_EXAMPLE, format!("10 ranks, 3 links; others are {}", others.join(", "))));
    let endings = FILES.map(|ending| format!(".{ending}")).join(", ");
    kinds.push(("net.graphml", format!("any graph: {endings}; networkx reads it")));
    kinds
}
