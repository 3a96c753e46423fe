//! What `ringroad tune` measured, kept in a file for one network, transport and kind of machine.
//!
//! A profile holds the cost model that fits the measured times best, and for each collective that was measured the
//! fastest algorithm by size. Rank 0 reads it when a communicator is made; the other ranks follow rank 0's choices.

use std::fmt;
use std::path::{Path, PathBuf};

use ringroad_core::algorithms::Member;
use ringroad_core::cost::{fit, rules_of, CostModel, Fit, Measurement, Rule, ScheduleCost, TimedSchedule};
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Topology};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::bootstrap::EndpointInfo;
use crate::config::{Config, ProfileSource};
use crate::error::{Error, Result};
use crate::os::files;
use crate::os::kept::{Checked, FileKind, KeptFiles};
use crate::os::messages::warn_once;

/// The most characters of the network in the name of a file.
const MOST_OF_NAME: usize = 120;
/// The version of the file.
const FORMAT: u32 = 2;
/// Profiles that are stored where communicators look for them. The user's own, elsewhere, are read as they are.
const STORED: FileKind = FileKind {
    suffix: ".json",
    mark: "{\n  \"ringroad\": \"",
    most_files: usize::MAX,
    advice: "run `ringroad tune` again for one that fits, RINGROAD_PROFILE=none uses none",
};

/// A machine, as far as it matters for the time of communication.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many cores a rank may use.
    pub cores: usize,
}

/// Where measurements are valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// The network with its links: the name of a graph does not describe them.
    pub topology: Topology,
    /// How many ranks share a host's memory.
    pub per_host: usize,
    /// The transport: `shared memory`, `ucx`, both, or `in-process`.
    pub transport: String,
    /// The version of the transport, if it has one of its own.
    pub version: String,
    /// The kinds of machines, each once.
    pub machines: Vec<Machine>,
}

impl Site {
    /// The place of these ranks. `per_host`: how many ranks of each host share memory.
    pub fn from_endpoints(endpoints: &[EndpointInfo], per_host: usize, topology: &Topology) -> Site {
        let mut machines: Vec<Machine> = endpoints
            .iter()
            .map(|endpoint| Machine { cpu: endpoint.cpu.clone(), cores: endpoint.cores })
            .collect();
        machines.sort();
        machines.dedup();
        let network = endpoints.first().filter(|endpoint| !endpoint.transport.is_empty());
        let (transport, version) = match network {
            Some(endpoint) if per_host > 1 => {
                (format!("shared memory and {}", endpoint.transport), endpoint.transport_version.clone())
            }
            Some(endpoint) => (endpoint.transport.clone(), endpoint.transport_version.clone()),
            None => ("shared memory".to_owned(), String::new()),
        };
        Site { topology: topology.clone(), per_host, transport, version, machines }
    }

    /// The name of the profile's file. If kinds of machines share a home directory, each has its own file.
    pub fn file_name(&self) -> String {
        let whole = serde_json::to_vec(self).expect("a place holds only finite numbers and text");
        let digest: String = Sha256::digest(&whole)[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        // Names of networks may be long, those of files may not.
        let network: String = self.topology.spec().chars().take(MOST_OF_NAME).collect();
        let text = format!("{network}-{}-{digest}.json", self.transport);
        text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-")
    }

    /// Describes how another place differs; `None` if it does not.
    fn difference(&self, other: &Site) -> Option<String> {
        if self.topology != other.topology && self.topology.spec() == other.topology.spec() {
            return Some(format!("the links of {} are others here than there", self.topology));
        }
        let pairs = [
            ("the network", self.topology.spec(), other.topology.spec()),
            ("ranks per host", self.per_host.to_string(), other.per_host.to_string()),
            ("the transport", self.transport.clone(), other.transport.clone()),
            ("the transport's version", self.version.clone(), other.version.clone()),
            ("the machine", machines(&self.machines), machines(&other.machines)),
        ];
        let differ = pairs.into_iter().find(|(_, mine, theirs)| mine != theirs);
        differ.map(|(what, mine, theirs)| format!("{what} is {theirs:?} here, and was {mine:?} there"))
    }

    /// Whether the ranks of another place are connected differently, as those of a part of a job are.
    fn is_wired_otherwise(&self, other: &Site) -> bool {
        (&self.topology, self.per_host) != (&other.topology, other.per_host)
    }
}

fn machines(machines: &[Machine]) -> String {
    let each = machines.iter().map(|m| format!("{} with {} cores", m.cpu, m.cores));
    each.collect::<Vec<_>>().join(" and ")
}

/// What was measured in a place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The version of ringroad that measured.
    pub ringroad: String,
    /// The version of the file.
    pub format: u32,
    /// The place.
    pub place: Site,
    /// The cost model.
    pub fit: Fit,
    /// The fastest algorithms, by collective and size.
    pub rules: Vec<Rule>,
    /// The times.
    pub measurements: Vec<Measurement>,
}

impl Profile {
    /// Makes a profile from times that were measured on `topology`, in `place`. `prior` provides the parameters that
    /// the times do not determine.
    ///
    /// Calls of collectives with a root overlap if they follow each other. So their times show which algorithm is
    /// faster, but nothing about latencies: the model is fitted to the other collectives, unless there are none.
    pub fn make(
        topology: &Topology,
        place: Site,
        prior: &CostModel,
        measurements: Vec<Measurement>,
    ) -> Result<Profile> {
        let mut routes = Routes::new(topology);
        let mut costs: Vec<(Collective, Member, ScheduleCost)> = Vec::new();
        let mut rows = Vec::new();
        for m in &measurements {
            let known = costs.iter().position(|(c, member, _)| (*c, *member) == (m.collective, m.algorithm));
            let index = match known {
                Some(index) => index,
                None => {
                    let schedule = m.algorithm.build(topology, m.collective)?;
                    let cost = ScheduleCost::with_routes(&schedule, &mut routes)?;
                    costs.push((m.collective, m.algorithm, cost));
                    costs.len() - 1
                }
            };
            rows.push((index, m.bytes, m.seconds));
        }
        let waits = |(index, ..): &(usize, u64, f64)| costs[*index].0.root().is_none();
        if rows.iter().any(waits) {
            rows.retain(waits);
        }
        let observe = |(index, bytes, seconds): (usize, u64, f64)| {
            let (_, _, cost) = &costs[index];
            TimedSchedule { cost, bytes, seconds }
        };
        let observations: Vec<TimedSchedule<'_>> = rows.into_iter().map(observe).collect();
        let fit = fit(prior, &observations).map_err(|error| Error::Config(error.to_string()))?;
        let rules = Collective::ALL.into_iter().flat_map(|c| rules_of(c, &measurements)).collect();
        let ringroad = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Profile { ringroad, format: FORMAT, place, fit, rules, measurements })
    }

    /// The profile as JSON, for a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a profile holds only finite numbers and text")
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Checked<Profile> {
        Profile::from_json(&files::read_text(path).map_err(|error| error.to_string())?)
    }

    /// Reads what [`Profile::to_json`] wrote.
    pub fn from_json(text: &str) -> Checked<Profile> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let unreadable = |error: serde_json::Error| format!("it is not a profile: {error}");
        let Version { format } = serde_json::from_str(text).map_err(unreadable)?;
        if format != FORMAT {
            return Err(format!("it has format {format}, and this version of ringroad reads {FORMAT}"));
        }
        let profile: Profile = serde_json::from_str(text).map_err(unreadable)?;
        profile.check()?;
        Ok(profile)
    }

    /// Checks everything that the choice of algorithms uses: files are edited, and catalogues change.
    fn check(&self) -> Checked<()> {
        if self.fit.model.cores == Some(0) {
            return Err("its model has 0 cores".to_owned());
        }
        match self.rules.iter().find(|rule| rule.from_bytes > rule.to_bytes) {
            Some(Rule { collective, from_bytes, to_bytes, .. }) => {
                Err(format!("a rule for {} is from {from_bytes} to {to_bytes} bytes", collective.name()))
            }
            None => Ok(()),
        }
    }

    /// Stores a profile where communicators look for it. Without a text it only checks that this is possible.
    pub fn store(path: &Path, text: Option<&str>) -> Result<()> {
        let kept = KeptFiles { folder: path.parent().unwrap_or(path).to_owned(), kind: &STORED };
        let done = text.map_or_else(|| kept.prepare(path), |text| kept.keep(path, &[text.as_bytes()]));
        done.map_err(|error| {
            Error::Config(format!("no profile can be stored as {}: {error}", path.display()))
        })
    }

    /// The profile to be used in a place, and its file.
    ///
    /// A stored profile that does not fit is ignored, with a warning on standard error. A profile that the settings
    /// name must fit, unless it is for a differently connected network: then these ranks may be a part of the job
    /// that it was made for.
    pub(crate) fn wanted(config: &Config, place: &Site) -> Result<Option<(Profile, PathBuf)>> {
        let fitting = |profile: Profile| match profile.place.difference(place) {
            None => Ok(profile),
            Some(difference) => {
                let reason = format!("it was measured elsewhere: {difference}");
                Err((reason, profile.place.is_wired_otherwise(place)))
            }
        };
        let path = match (&config.profile, config.profiles()) {
            (ProfileSource::File(path), _) => path,
            (ProfileSource::Stored, Some(folder)) => {
                let path = folder.join(place.file_name());
                let found = KeptFiles { folder, kind: &STORED }.recall(&path, |file| {
                    let text = std::io::read_to_string(file).map_err(|error| error.to_string())?;
                    fitting(Profile::from_json(&text)?).map_err(|(reason, _)| reason)
                });
                return Ok(found.map(|profile| (profile, path)));
            }
            _ => return Ok(None),
        };
        let found = Profile::read(path).map_err(|reason| (reason, false)).and_then(fitting);
        let (reason, elsewhere) = match found {
            Ok(profile) => return Ok(Some((profile, path.clone()))),
            Err(found) => found,
        };
        let text = |advice| format!("the profile {} is not used: {reason}; {advice}", path.display());
        if !elsewhere {
            return Err(Error::Config(text(STORED.advice)));
        }
        let advice = "without RINGROAD_PROFILE every network has the one that `ringroad tune` stored for it";
        warn_once(&path.display().to_string(), &text(advice));
        Ok(None)
    }
}

/// For example `hosts:1x4 over shared memory`.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.topology, self.transport)?;
        if !self.version.is_empty() {
            write!(f, " {}", self.version)?;
        }
        write!(f, " on {}", machines(&self.machines))
    }
}
