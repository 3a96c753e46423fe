//! What a spec says after the wiring: routing, rates and positions of ranks.
//!
//! ```text
//! torus:2x2,routing=single-path,bandwidth=200Mbit/s,latency=20us,0-1=50Mbit/s,2>3=10Mbit/s@2,0,1,3
//! ```
//!
//! Bandwidth and latency are those of all links (see [`Topology::with_links`]), but slower cables do not slow down hosts'
//! memories, whose bandwidth is `memory`. `0-1` is the cable between two nodes and `2>3` the link from one to another; in
//! these, too, ranks have their own numbers, not those of their positions. Rates are properties of links, not of the spec
//! that a topology is written as.

use super::expression::{commas, cut};
use super::family::{Family, TopologyResult};
use super::without::Cut;
use super::{catalogue, text, Link, Routing, Topology, TopologyError};
use crate::units::{bandwidth, seconds, NotAQuantity, Rank, Seconds};

/// What a spec says after the wiring.
#[derive(Debug, Default)]
pub(super) struct SpecOptions {
    pub routing: Option<Routing>,
    /// The position of every rank.
    pub positions: Option<Vec<Rank>>,
    bandwidth: Option<f64>,
    latency: Option<Seconds>,
    memory: Option<f64>,
    /// The bandwidths of single links.
    links: Vec<(Cut, f64)>,
}

/// Splits a text into the wiring and what follows it. `spec` is the whole text, for errors.
pub(super) fn options<'a>(spec: &str, text: &'a str) -> Result<(&'a str, SpecOptions), TopologyError> {
    let mut options = SpecOptions::default();
    let (text, positions) = match text.rsplit_once('@').filter(|(_, list)| !list.contains(')')) {
        Some((text, list)) => (text.trim_end(), Some(list)),
        None => (text, None),
    };
    let malformed = |example| TopologyError::Malformed { spec: spec.to_owned(), example };
    if let Some(list) = positions {
        options.positions = Some(text::numbers(list).ok_or_else(|| malformed("torus:2x2@2,0,1,3"))?);
    }
    let name = text.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let is_list = catalogue::family(&name).is_some_and(Family::has_list);
    let commas = commas(text);
    let part =
        |number: usize| &text[commas[number] + 1..commas.get(number + 1).copied().unwrap_or(text.len())];
    let goes_on = |part: &str| {
        is_list && !part.contains('=') && part.trim_start().starts_with(|c: char| c.is_ascii_digit())
    };
    let first = (0..commas.len()).find(|number| !goes_on(part(*number)));
    for number in first.into_iter().flat_map(|first| first..commas.len()) {
        let part = part(number);
        let (name, value) = part.split_once('=').ok_or_else(|| malformed("torus:4x4,routing=single-path"))?;
        options.read(spec, name.trim(), value.trim())?;
    }
    Ok((first.map_or(text, |first| text[..commas[first]].trim_end()), options))
}

impl SpecOptions {
    fn read(&mut self, spec: &str, name: &str, value: &str) -> Result<(), TopologyError> {
        let rate = |error: NotAQuantity| TopologyError::Rate {
            spec: spec.to_owned(),
            option: name.to_owned(),
            error,
        };
        let twice = match name.to_ascii_lowercase().as_str() {
            "routing" => self.routing.replace(value.parse()?).is_some(),
            "bandwidth" => self.bandwidth.replace(bandwidth(value).map_err(rate)?).is_some(),
            "latency" => self.latency.replace(seconds(value).map_err(rate)?).is_some(),
            "memory" => self.memory.replace(bandwidth(value).map_err(rate)?).is_some(),
            other => {
                let unknown =
                    || TopologyError::Option { spec: spec.to_owned(), option: format!("{name}={value}") };
                let cut = cut(other).ok_or_else(unknown)?;
                let known = self.links.iter().any(|(known, _)| *known == cut);
                self.links.push((cut, bandwidth(value).map_err(rate)?));
                known
            }
        };
        match twice {
            true => Err(TopologyError::Twice { spec: spec.to_owned(), option: name.to_owned() }),
            false => Ok(()),
        }
    }

    /// The routing, or the default.
    pub fn routing(&self) -> Routing {
        self.routing.unwrap_or_default()
    }

    /// Whether it says what only a whole spec can say, and no operand.
    pub fn are_of_the_whole(&self) -> bool {
        let rates = [self.bandwidth, self.latency, self.memory];
        self.routing.is_some() || !self.links.is_empty() || rates.iter().any(Option::is_some)
    }

    /// The wiring with the positions.
    pub fn placed(&self, wiring: Topology) -> TopologyResult {
        match &self.positions {
            Some(positions) => wiring.placed(positions),
            None => Ok(wiring),
        }
    }

    /// The network with the rates.
    pub fn rated(&self, topology: Topology) -> TopologyResult {
        let before = topology.links().first().map(Link::bytes_per_second);
        let mut topology = topology.with_links(self.bandwidth, self.latency)?;
        if let (Some(before), Some(&Link { bandwidth, capacity, .. })) = (before, topology.links().first()) {
            let kept = (before / bandwidth).max(capacity);
            topology = topology.with_hosts(Some(self.memory.map_or(kept, |rate| rate / bandwidth)), None)?;
        }
        for (cut, rate) in &self.links {
            topology.check_cuts(&topology.wiring(), std::slice::from_ref(cut))?;
            topology = topology.map_links(|_, link| {
                if cut.has(link) {
                    link.bandwidth = rate / link.capacity;
                }
            })?;
        }
        Ok(topology)
    }
}
