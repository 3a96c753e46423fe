//! What rank 0 decides for all ranks when a communicator is made.

use std::collections::BTreeSet;

use ringroad_core::cost::{read_rules, CostModel, Rule};
use ringroad_core::discovery::{states_rates, with_found_rates};
use ringroad_core::topology::{Link, MEMORY_CAPACITY};
use ringroad_core::{Rank, Topology};
use serde::{Deserialize, Serialize};

use crate::bootstrap::{self, refused, unreadable, EndpointInfo, Rendezvous};
use crate::choice::choices::{Choices, LoweringSettings, NetworkOrigin, Wishes};
use crate::choice::options::Options;
use crate::choice::profile::{Profile, Site};
use crate::choice::report::DiscoveryReport;
use crate::choice::user_schedules;
use crate::config::{Algorithms, Config, Cost};
use crate::error::{Error, Result};
use crate::os::files;
use crate::os::machine::cache::{CacheMode, CacheProbe};
use crate::os::machine::{
    CODEC, EMULATED_MESSAGE, LONGEST_SEGMENT, OVERSUBSCRIBED_COPY, OVERSUBSCRIBED_MESSAGE,
    OVERSUBSCRIBED_REDUCE, OVERSUBSCRIBED_STEP, SEGMENT_TIME, SEND_BUFFER, SEND_BUFFER_TIME, SHARED_COPY,
    SHARED_MESSAGE, SHARED_PART, SHARED_REDUCE, SHARED_STEP, SHORTEST_SEGMENT,
};
use crate::os::memory;

/// From so many ranks on, candidates' schedules take megabytes of memory while rank 0 chooses, most of which it would keep.
const MANY: usize = 64;

/// The cost model of a network until it is measured. It covers the start of a step between two processes, another
/// message of the same step, and reducing from memory. The topology describes the links. The cost of messages that
/// meet at a port is part of `message_latency`; and shared memory has no ports.
const NETWORK: CostModel = CostModel {
    step_latency: 1e-6,
    hop_latency: None,
    message_latency: 0.5e-6,
    incast_latency: 0.0,
    bandwidth: None,
    reduce_cost: 5e-11,
    overlapped: false,
    cores: None,
    over_links: false,
    codec_cost: 1.0 / CODEC,
};

/// The cost model of shared memory that all ranks read, if there are cores for all of them. Reducing costs little more
/// than the copy that is made otherwise.
const SHARED: CostModel = CostModel {
    step_latency: SHARED_STEP.as_secs_f64(),
    message_latency: SHARED_MESSAGE.as_secs_f64(),
    bandwidth: Some(SHARED_COPY / MEMORY_CAPACITY),
    reduce_cost: 1.0 / SHARED_REDUCE,
    ..NETWORK
};

/// The cost model of shared memory if ranks take turns on fewer cores: a step ends when all of them had their turn. A
/// message refills the caches of two ranks, which other ranks have used meanwhile.
fn oversubscribed(ranks: usize, cores: usize) -> CostModel {
    CostModel {
        step_latency: SHARED.step_latency
            + OVERSUBSCRIBED_STEP.as_secs_f64() * (ranks as f64 / cores as f64 - 1.0),
        message_latency: OVERSUBSCRIBED_MESSAGE.as_secs_f64(),
        bandwidth: Some(OVERSUBSCRIBED_COPY),
        reduce_cost: 1.0 / OVERSUBSCRIBED_REDUCE,
        cores: Some(cores),
        ..NETWORK
    }
}

/// For ranks on hosts of their own that one machine emulates with fewer cores: sending and receiving a message takes the
/// kernel's and UCX's work, which the cores do for all ranks in turn.
fn emulated(cores: usize) -> CostModel {
    CostModel {
        message_latency: EMULATED_MESSAGE.as_secs_f64(),
        cores: Some(cores),
        over_links: true,
        ..NETWORK
    }
}

/// Whether the ranks are on several hosts, all of which are parts of one machine.
fn are_emulated(endpoints: &[EndpointInfo]) -> bool {
    let first = &endpoints[0];
    endpoints.iter().any(|endpoint| endpoint.host != first.host)
        && endpoints.iter().all(|endpoint| endpoint.shares_machine(first))
}

/// Rank 0 chooses, the others take it over; so does an error.
pub(crate) fn agree(
    rendezvous: &mut Rendezvous,
    rank: Rank,
    endpoints: &[EndpointInfo],
    config: &Config,
    options: &Options,
    per_host: usize,
    report: &DiscoveryReport,
) -> Result<Choices> {
    let mine = (rank == 0).then(|| choose(endpoints, config, options, per_host, report).and_then(read_back));
    if rank == 0 && endpoints.len() >= MANY {
        memory::give_back();
    }
    let text = mine.as_ref().map(|choices| {
        let shared: SharedChoices = choices.clone().map_err(Refusal::from);
        serde_json::to_vec(&shared).expect("choices hold only numbers and text")
    });
    let shared = rendezvous.share(CHOICES, text.as_deref(), most(endpoints.len()))?;
    if let Some(choices) = mine {
        return choices;
    }
    let choices = read(&shared, endpoints.len(), per_host);
    choices.map_err(|reason| refused(CHOICES, 0, reason))?.map_err(Error::from)
}

/// What rank 0 publishes.
pub(crate) type SharedChoices = std::result::Result<Choices, Refusal>;

/// Reads and checks what rank 0 has published for this many ranks, of which `per_host` on each host are local to each other.
pub(crate) fn read(text: &[u8], ranks: usize, per_host: usize) -> std::result::Result<SharedChoices, String> {
    let shared: SharedChoices = serde_json::from_slice(text).map_err(|e| unreadable(&e))?;
    if let Ok(choices) = &shared {
        choices.check(ranks, per_host)?;
    }
    Ok(shared)
}

/// The kind under which the choices are published.
const CHOICES: &str = "choices";

/// More bytes than the choices for this many ranks take: a topology may have a route for every pair.
pub(crate) fn most(ranks: usize) -> usize {
    (64 << 20) + 1024 * ranks * ranks
}

/// The choices as the other ranks read them: if they cannot be read, rank 0 gets an error, too.
fn read_back(choices: Choices) -> Result<Choices> {
    let text = serde_json::to_vec(&choices).expect("choices hold only numbers and text");
    serde_json::from_slice(&text).map_err(|e| Error::Config(format!("rank 0's choices cannot be read: {e}")))
}

/// Why rank 0 could not choose.
#[derive(Serialize, Deserialize)]
pub(crate) enum Refusal {
    Topology(String),
    Schedule(String),
    Config(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Topology(text) => Refusal::Topology(text),
            Error::Schedule(text) => Refusal::Schedule(text),
            other => Refusal::Config(other.to_string()),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Topology(text) => Error::Topology(text),
            Refusal::Schedule(text) => Error::Schedule(text),
            Refusal::Config(text) => Error::Config(text),
        }
    }
}

/// Makes the choices for the ranks of these endpoints.
///
/// `per_host`: how many ranks of each host, which are consecutive, read each other's memory.
pub(crate) fn choose(
    endpoints: &[EndpointInfo],
    config: &Config,
    options: &Options,
    per_host: usize,
    report: &DiscoveryReport,
) -> Result<Choices> {
    let size = endpoints.len();
    let (topology, origin) = topology(endpoints, config, options, per_host, report)?;
    let place = Site::from_endpoints(endpoints, per_host, &topology);
    let profile = Profile::wanted(config, &place)?;
    let cores = EndpointInfo::cores_of(&endpoints.iter().collect::<Vec<_>>());
    // If the bandwidth or the topology is set, costs must follow from that.
    let stated = config.cost.bandwidth.is_some() || origin != NetworkOrigin::Assumed;
    let prior = match &profile {
        Some((profile, _)) => profile.fit.model,
        None if per_host == size && size > cores && !stated => oversubscribed(size, cores),
        None if per_host == size => SHARED,
        None if per_host == 1 && size > cores && are_emulated(endpoints) => emulated(cores),
        None => NETWORK,
    };
    // If costs are set, the choice must follow from them, not from measurements.
    let measured = profile.as_ref().filter(|_| config.cost == Cost::default());
    let measured = measured.map_or(Vec::new(), |(profile, _)| profile.rules.clone());
    let model = config.cost_model(prior);
    let anywhere = suits_any(&topology, &model, origin, report.hosts);
    let hosts = hosts(endpoints, per_host);
    let wishes = Wishes { measured, anywhere, ..wishes(config, options, size, hosts)? };
    let cache = if per_host > 1 { CacheProbe::new().mode } else { CacheMode::Shared };
    let part = if per_host == size { SHARED_PART * (size / 8).max(1) } else { usize::MAX };
    // If ranks share cores, they wait for each other anyway, and all of their memory has to fit into the caches.
    let two_areas = size <= cores;
    let segment = config.segment.unwrap_or_else(|| segment(&topology, &model));
    let lowering = LoweringSettings { segment, part, two_areas, cache };
    let mut choices = Choices::make(topology, model, lowering, place, &wishes)?;
    (choices.origin, choices.notes) = (origin, report.notes());
    choices.mismatch = report.mismatch.clone();
    choices.profile = profile.map(|(_, path)| path.display().to_string());
    Ok(choices)
}

/// Makes the choices anew after the network has changed from what it was when `first` was made.
pub(crate) fn choose_again(
    first: &Choices,
    topology: Topology,
    config: &Config,
    options: &Options,
    hosts: usize,
) -> Result<Choices> {
    let model = first.model;
    let anywhere = suits_any(&topology, &model, first.origin, hosts);
    let wishes = Wishes { anywhere, ..wishes(config, options, topology.ranks(), hosts)? };
    let segment = config.segment.unwrap_or_else(|| segment(&topology, &model));
    let lowering = LoweringSettings { segment, ..first.lowering.clone() };
    let place = Site { topology: topology.clone(), ..first.place.clone() };
    let mut choices = Choices::make(topology, model, lowering, place, &wishes)?;
    (choices.origin, choices.notes) = (first.origin, first.notes.clone());
    choices.mismatch = first.mismatch.clone();
    read_back(choices)
}

/// Whether only algorithms are to be used that suit any network.
fn suits_any(topology: &Topology, model: &CostModel, origin: NetworkOrigin, hosts: usize) -> bool {
    let is_slow = is_slow(slowest(topology, model.bandwidth));
    topology.is_one_switch() && hosts > 1 && (origin != NetworkOrigin::Given || is_slow)
}

/// How many hosts the ranks are on. `per_host`: how many of each host read each other's memory, if that is the same on all.
fn hosts(endpoints: &[EndpointInfo], per_host: usize) -> usize {
    if per_host > 1 {
        return endpoints.len() / per_host;
    }
    let names = endpoints.iter().map(|endpoint| (&*endpoint.host, &*endpoint.net_space));
    names.collect::<BTreeSet<_>>().len()
}

/// What the user wants, for so many ranks on so many hosts.
fn wishes(config: &Config, options: &Options, size: usize, hosts: usize) -> Result<Wishes> {
    let algorithms = match &options.algorithm {
        Some(text) => {
            Algorithms::parse(text).map_err(|e| Error::Config(format!("algorithm {text:?}: {e}")))?
        }
        None => config.algorithms.clone(),
    };
    let beside = config.schedules.as_deref().map_or(Ok(Vec::new()), user_schedules::read_all)?;
    let read = |path: &str| user_schedules::read(path.as_ref()).map_err(|error| error.to_string());
    let algorithms = algorithms.with_files(read).and_then(|algorithms| algorithms.beside(beside));
    Ok(Wishes {
        anywhere: false,
        is_part: options.is_part,
        algorithms: algorithms.map_err(Error::Schedule)?,
        size_invariant: options.size_invariant.unwrap_or(config.size_invariant),
        rules: rules(config, hosts, size)?,
        measured: Vec::new(),
        synthesis_budget: Some(config.budget.synthesis),
        schedule_cache: config.made_schedules(),
    })
}

/// Bytes per second of the slowest link. `bandwidth`: that of all links, if it is set.
pub(crate) fn slowest(topology: &Topology, bandwidth: Option<f64>) -> f64 {
    let rate = |link: &Link| bandwidth.map_or(link.bytes_per_second(), |bandwidth| bandwidth * link.capacity);
    topology.links().iter().map(rate).fold(f64::INFINITY, f64::min)
}

/// How many bytes a tcp connection should accept before it has sent them. `measured`: the bytes per second of the slowest
/// flow, if flows were measured. It counts unless the settings state rates. `None` if neither says that links are slow.
pub(crate) fn send_buffer(config: &Config, options: &Options, measured: Option<f64>) -> Option<usize> {
    let bandwidth = config.cost.bandwidth;
    let stated = given(config, options).filter(|topology| bandwidth.is_some() || states_rates(topology));
    let rate = stated.map(|topology| slowest(topology, bandwidth)).or(measured)?;
    is_slow(rate).then_some(SEND_BUFFER)
}

/// Whether a link of this rate is so slow that a long message holds up others.
fn is_slow(rate: f64) -> bool {
    rate * SEND_BUFFER_TIME.as_secs_f64() <= SEND_BUFFER as f64
}

/// The bytes that the slowest link carries in [`SEGMENT_TIME`], as a power of two within bounds.
fn segment(topology: &Topology, model: &CostModel) -> usize {
    let bytes = (slowest(topology, model.bandwidth) * SEGMENT_TIME.as_secs_f64()) as usize;
    let bytes = bytes.clamp(SHORTEST_SEGMENT, LONGEST_SEGMENT);
    1 << bytes.ilog2()
}

/// The network that the user names.
pub(crate) fn given<'a>(config: &'a Config, options: &'a Options) -> Option<&'a Topology> {
    options.topology.as_ref().or(config.topology.given())
}

/// The network, and where it comes from: what the user says, or else what was found out.
fn topology(
    endpoints: &[EndpointInfo],
    config: &Config,
    options: &Options,
    per_host: usize,
    report: &DiscoveryReport,
) -> Result<(Topology, NetworkOrigin)> {
    let size = endpoints.len();
    let (topology, origin) = match (given(config, options), &report.found) {
        (Some(given), Some(found)) if config.cost.bandwidth.is_none() => {
            (with_found_rates(given, found).unwrap_or_else(|| given.clone()), NetworkOrigin::Given)
        }
        (Some(given), _) => (given.clone(), NetworkOrigin::Given),
        (None, Some(found)) => (found.topology.clone(), NetworkOrigin::Found),
        (None, None) => {
            (assumed(endpoints, per_host)?.with_links(report.stated, None)?, NetworkOrigin::Assumed)
        }
    };
    if topology.ranks() != size {
        let (spec, ranks) = (topology.spec(), topology.ranks());
        return Err(Error::Topology(format!(
            "topology {spec} has {ranks} ranks, but the communicator has {size}"
        )));
    }
    Ok((topology, origin))
}

/// Hosts at a switch, or else ranks at a switch.
fn assumed(endpoints: &[EndpointInfo], per_host: usize) -> Result<Topology> {
    let size = endpoints.len();
    if per_host > 1 {
        return Ok(Topology::hosts(size / per_host, per_host)?);
    }
    let hosts = bootstrap::hosts(endpoints);
    let counts: Vec<usize> = hosts.chunk_by(|a, b| a == b).map(<[usize]>::len).collect();
    let consecutive = hosts.is_sorted();
    if consecutive && counts.len() > 1 && counts.len() < size {
        return Ok(Topology::hosts_with(&counts)?);
    }
    Ok(Topology::switch(size)?)
}

/// The rules of the tuner file for this many ranks on this many hosts.
fn rules(config: &Config, hosts: usize, size: usize) -> Result<Vec<Rule>> {
    let Some(path) = &config.tuner_file else { return Ok(Vec::new()) };
    let unusable = |reason: String| {
        Error::Config(format!("RINGROAD_TUNER_FILE={} cannot be used: {reason}", path.display()))
    };
    let text = files::read_text(path).map_err(|error| unusable(error.to_string()))?;
    let rules = read_rules(&text).map_err(|error| unusable(error.to_string()))?;
    Ok(rules.into_iter().filter(|rule| rule.is_for(hosts, size)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_as_long_as_the_slowest_link_is_fast() {
        let longest = |spec: &str, bandwidth: Option<f64>, model: Option<f64>| {
            let topology = Topology::parse(spec).unwrap().with_links(bandwidth, None).unwrap();
            segment(&topology, &CostModel { bandwidth: model, ..NETWORK })
        };
        assert_eq!(longest("ring:4", None, None), LONGEST_SEGMENT);
        assert_eq!(longest("ring:4", Some(25e6), None), 64 << 10);
        assert_eq!(longest("ring:4", Some(1e3), None), SHORTEST_SEGMENT);
        assert_eq!(longest("ring:4", Some(1e3), Some(25e6)), 64 << 10);
        // The slowest link is the host's cable, not its memory.
        assert_eq!(longest("hosts:2x2", Some(25e6), None), 64 << 10);
    }

    /// A graph that is named rarely comes with rates; then those that were measured count.
    #[test]
    fn slow_flows_count_unless_rates_are_stated() {
        let buffered = |spec: &str, measured: Option<f64>| {
            let options = Options { topology: Some(Topology::parse(spec).unwrap()), ..Options::default() };
            send_buffer(&Config::default(), &options, measured)
        };
        assert_eq!(buffered("ring:4", Some(12.5e6)), Some(SEND_BUFFER));
        assert_eq!(buffered("ring:4,bandwidth=40Gbit/s", Some(12.5e6)), None);
        assert_eq!(buffered("ring:4,bandwidth=100Mbit/s", None), Some(SEND_BUFFER));
        assert_eq!(buffered("ring:4", None), None);
    }

    /// Rules for so many hosts count also where ranks share no memory, or hosts have different numbers of ranks.
    #[test]
    fn hosts_are_counted_by_their_names() {
        let endpoints = |names: &[&str]| -> Vec<EndpointInfo> {
            let one = |(rank, name): (Rank, &&str)| EndpointInfo {
                host: name.to_string(),
                ..EndpointInfo::new(rank, names.len(), "tcp", "", Vec::new())
            };
            names.iter().enumerate().map(one).collect()
        };
        assert_eq!(hosts(&endpoints(&["a", "b", "b"]), 1), 2);
        assert_eq!(hosts(&endpoints(&["a", "a", "a"]), 1), 1);
        assert_eq!(hosts(&endpoints(&["a", "a", "b", "b"]), 2), 2);
    }
}
