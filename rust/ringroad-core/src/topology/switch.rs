//! A single switch, which is node `n` of a network of `n` ranks. Rank `r` has the uplink `2r` to the switch and the
//! downlink `2r + 1` from it.
//!
//! ```text
//! switch:3     0   1   2
//!              └─⇅─┼─⇅─┘
//!                  3
//! ```

use super::family::{check_size, Ends, Family, FamilyLayout, PortRule, SpecForm, Traits};
use super::hosts::HOSTS;
use super::{Link, Topology, TopologyError, TopologyKind};

pub(super) static SWITCH: Family = Family {
    name: "switch",
    example: "switch:16",
    summary: "one switch that never blocks",
    source: "Dally, Towles: Principles and practices of interconnection networks, 2004",
    form: SpecForm::Number(Topology::switch),
};

const LAYOUT: FamilyLayout =
    FamilyLayout { family: &SWITCH, ports: PortRule::Uplink, ends: Ends::First, traits: Traits::NONE };

impl Topology {
    /// `n` ranks with one cable each to a switch that can forward all of them at full bandwidth.
    pub fn switch(n: usize) -> Result<Topology, TopologyError> {
        let spec = || SWITCH.spec(n);
        let ranks = check_size(&[n], 2, spec)?;
        Ok(Topology::member(LAYOUT, spec(), ranks, ranks + 1, links(ranks)))
    }

    /// Whether it is a single switch with cables to all ranks or hosts.
    pub fn is_one_switch(&self) -> bool {
        matches!(&self.kind, TopologyKind::Member { layout, .. } if *layout.family == SWITCH || *layout.family == HOSTS)
    }
}

fn links(ranks: usize) -> Vec<Link> {
    (0..ranks).flat_map(|rank| [Link::between(rank, ranks), Link::between(ranks, rank)]).collect()
}
