//! What decides which algorithm runs: preferences, rules, measurements, and one order of reduction for all sizes.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use common::{config, each, float, group_with, patient, watch, Means, SLOW};
use ringroad_core::cost::{CostModel, Measurement, Origin, Rule, SwitchTable};
use ringroad_core::random::Random;
use ringroad_core::{algorithms, Bytes, Collective, Topology};
use ringroad_runtime::choice::choices::{Choices, LoweringSettings, Wishes};
use ringroad_runtime::choice::profile::{Profile, Site};
use ringroad_runtime::config::{Algorithms, Config};
use ringroad_runtime::os::machine::cache::CacheMode;
use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, Options, Request, Result};

fn on(topology: &str) -> Options {
    Options { topology: Some(Topology::parse(topology).unwrap()), ..patient() }
}

fn read(variables: &[(&str, &str)]) -> Config {
    Config::read(variables.iter().map(|(name, value)| (name.to_string(), value.to_string()))).unwrap()
}

/// The choices on a network with these settings.
fn choices(topology: &str, config: &Config) -> Result<Choices> {
    choices_on(&Topology::parse(topology).unwrap(), config)
}

fn choices_on(topology: &Topology, config: &Config) -> Result<Choices> {
    let options = Options { topology: Some(topology.clone()), ..patient() };
    let group = Communicator::over(Means::Mailboxes(0).transports(topology.ranks()), config, &options)?;
    Ok(group[0].choices())
}

fn points(choices: &Choices, collective: Collective) -> Vec<(Bytes, String, Origin)> {
    let ranges = choices.switch_points(collective);
    ranges.iter().map(|range| (range.from_bytes, range.algorithm.name(), range.origin)).collect()
}

const REDUCING: [Collective; 3] =
    [Collective::Allreduce, Collective::ReduceScatter, Collective::Reduce { root: 1 }];

// ----------------------------------------------------------------------------------- one order for all sizes

/// Elements of all ranks whose sums depend on the order.
struct Elements(Vec<Vec<f32>>);

impl Elements {
    fn new(ranks: usize, count: usize) -> Elements {
        let mut random = Random::new(17);
        let mut value = || float(&mut random) as f32 * 2f32.powi((random.bits() % 24) as i32);
        Elements((0..ranks).map(|_| (0..count).map(|_| value()).collect()).collect())
    }

    /// All results to which each element was ever reduced, over vectors of many lengths with different beginnings.
    fn results(&self, group: &[Communicator], collective: Collective) -> HashMap<usize, Vec<u32>> {
        let (ranks, most) = (group.len(), self.0[0].len());
        let whole = |length: usize| if collective.has_blocks() { length / ranks * ranks } else { length };
        let lengths = [1, 2, 3, 5, 7, 8, 63, 64, 65, 127, 200, 1001, most].map(whole);
        let windows = lengths
            .iter()
            .flat_map(|length| [0, 1, (most - length) / 2, most - length].map(|s| (s, *length)));
        let mut found: HashMap<usize, Vec<u32>> = HashMap::new();
        for (start, length) in windows.filter(|(s, length)| *length > 0 && s + length <= most) {
            let outputs = each(group, |communicator| {
                let rank = communicator.rank();
                let input = Memory::from_slice(&self.0[rank][start..start + length]);
                let elements = if collective.has_blocks() { length / ranks } else { length };
                let held = collective.output(rank) != ringroad_core::collective::Holding::Nothing;
                let output = Memory::zeroed(if held { 4 * elements } else { 0 });
                let operation = Operation::Collective(collective);
                let work =
                    communicator.start(Request::new(operation, DType::F32, elements, input, output)).unwrap();
                work.finish().unwrap().to_vec::<u32>()
            });
            for (rank, output) in outputs.iter().enumerate() {
                let first = start + if collective.has_blocks() { rank * output.len() } else { 0 };
                for (i, bits) in output.iter().enumerate() {
                    let seen = found.entry(first + i).or_default();
                    if !seen.contains(bits) {
                        seen.push(*bits);
                    }
                }
            }
        }
        assert_eq!(found.len(), most);
        found
    }
}

/// The setting, with short messages, so that messages are also cut.
fn invariant() -> Config {
    read(&[("RINGROAD_DETERMINISTIC", "size-invariant"), ("RINGROAD_SEGMENT", "256")])
}

#[test]
fn sums_do_not_depend_on_the_length() {
    let _watchdog = watch();
    for topology in ["switch:2", "switch:3", "switch:4", "ring:5", "torus:2x3", "switch:8", "hosts:2x3"] {
        let ranks = Topology::parse(topology).unwrap().ranks();
        let elements = Elements::new(ranks, 2520);
        for means in SLOW {
            let group = group_with(ranks, means, &invariant(), &on(topology));
            for collective in REDUCING {
                let found = elements.results(&group, collective);
                let differing = found.values().filter(|bits| bits.len() > 1).count();
                assert_eq!(differing, 0, "{collective} on {topology} over {means:?}");
            }
        }
    }
}

/// The test above can fail: without the setting, sums do depend on the length.
#[test]
fn otherwise_they_do() {
    let _watchdog = watch();
    let elements = Elements::new(8, 2520);
    let options = Options { algorithm: Some("ring".to_owned()), ..on("switch:8") };
    let found = elements.results(&group_with(8, 0, &config(), &options), Collective::Allreduce);
    assert!(found.values().any(|bits| bits.len() > 1));
}

#[test]
fn one_order_is_kept_or_refused() {
    let on_four = choices("switch:4", &invariant()).unwrap();
    for collective in REDUCING {
        for range in on_four.switch_points(collective) {
            assert_ne!(range.algorithm.name(), "direct", "{collective}");
        }
    }
    // Calls that add no floats may use any algorithm.
    let plain = choices("switch:4", &config()).unwrap();
    for bytes in [8, 1 << 20, 1 << 28] {
        let pick = |choices: &Choices, any| choices.pick(Collective::Allreduce, bytes, any).name();
        assert_eq!(pick(&on_four, true), pick(&plain, true));
    }
    assert_eq!(
        points(&on_four, Collective::Allgather),
        points(&plain, Collective::Allgather),
        "an allgather adds nothing up"
    );
    // Both have one order, whichever is the fastest: small and large vectors may use different ones.
    let mixed = [
        ("RINGROAD_DETERMINISTIC", "size-invariant"),
        ("RINGROAD_ALGO", "allreduce:direct-latency,ring,direct-ordered"),
    ];
    let names: Vec<String> = points(&choices("switch:4", &read(&mixed)).unwrap(), Collective::Allreduce)
        .into_iter()
        .map(|p| p.1)
        .collect();
    assert_eq!(names, ["direct-latency", "direct-ordered"]);
    let ring = [("RINGROAD_DETERMINISTIC", "size-invariant"), ("RINGROAD_ALGO", "ring")];
    let error = choices("switch:4", &read(&ring)).unwrap_err().to_string();
    assert!(
        error.starts_with("no algorithm that may be used for allreduce on switch:4 adds up in one order")
            && error.contains("; allow one of: ")
            && error.contains("direct-ordered"),
        "{error}"
    );
    let error = choices("switch:257", &invariant()).unwrap_err().to_string();
    assert!(
        error.contains("on switch:257 adds up in one order whatever the size; none does on so many ranks"),
        "{error}"
    );
    // An argument takes precedence over the environment.
    let options = Options { size_invariant: Some(false), ..on("switch:4") };
    let group = group_with(4, 0, &invariant(), &options);
    assert_eq!(points(&group[0].choices(), Collective::Allreduce), points(&plain, Collective::Allreduce));
}

/// An algorithm that is known to have one order need not be replayed for every root, nor need calls with a unique
/// result. So there is a choice for many ranks, and soon.
#[test]
#[cfg_attr(miri, ignore = "hundreds of ranks")]
fn one_order_on_many_ranks() {
    let check = |topology: &str, algorithms: &str, expected: [&str; 3]| {
        let topology = Topology::parse(topology).unwrap();
        let algorithms = Algorithms::parse(algorithms).unwrap();
        let wishes = Wishes { algorithms, size_invariant: true, ..Wishes::default() };
        let place = Site::from_endpoints(&[], 1, &topology);
        let lowering = LoweringSettings {
            segment: 1 << 16,
            part: usize::MAX,
            two_areas: true,
            cache: CacheMode::Shared,
        };
        let choices =
            Choices::make(topology.clone(), CostModel::default(), lowering, place, &wishes).unwrap();
        let names = REDUCING
            .map(|collective| points(&choices, collective).into_iter().map(|p| p.1).collect::<Vec<_>>());
        assert_eq!(names, expected.map(|name| vec![name.to_owned()]), "{topology}");
    };
    for topology in ["switch:77", "switch:128", "switch:256"] {
        check(topology, "direct-ordered", ["direct-ordered"; 3]);
    }
    // More ranks than can be compared, so that each algorithm is taken to have an order of its own.
    let trees = "recursive-doubling,binomial,pairwise;reduce_scatter:halving-doubling;allgather:ring";
    check("switch:2048", trees, ["recursive-doubling", "halving-doubling", "binomial"]);
}

// --------------------------------------------------------------------------------------- rules, measurements

/// A file that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Scratch {
        let folder = std::env::temp_dir().join(format!("ringroad-choices-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), text).unwrap();
        Scratch(folder)
    }

    fn path(&self) -> String {
        self.0.join("file").display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_left_out_is_not_chosen() {
    let all = choices("ring:8", &config()).unwrap();
    let winners: Vec<String> = points(&all, Collective::Allreduce).into_iter().map(|p| p.1).collect();
    let text = format!("allreduce:^{}", winners.join(","));
    let others =
        points(&choices("ring:8", &read(&[("RINGROAD_ALGO", &text)])).unwrap(), Collective::Allreduce);
    assert!(others.iter().all(|(_, name, _)| !winners.contains(name)), "{others:?}");
    let both = choices("ring:8", &read(&[("RINGROAD_ALGO", "allreduce:swing,ring;^ring")])).unwrap();
    assert_eq!(points(&both, Collective::Allreduce), [(0, "swing".to_owned(), Origin::Only)]);
    let error =
        choices("ring:8", &read(&[("RINGROAD_ALGO", "allreduce:ring;^ring")])).unwrap_err().to_string();
    assert!(error.starts_with("every algorithm for allreduce on ring:8 is left out by ^"), "{error}");
}

#[test]
fn rules_decide_before_the_model() {
    let rules = "\
collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks
allreduce,100,199,ring,simple,-1,-1,8
allreduce,0,1000,swing,simple,-1,-1,8
allreduce,0,-1,bucket,simple,-1,-1,64
broadcast,0,-1,binomial,simple,-1,3,-1
";
    let file = Scratch::new("rules", rules);
    let settings = [("RINGROAD_TUNER_FILE", &*file.path())];
    let with = choices("ring:8", &read(&settings)).unwrap();
    let found = points(&with, Collective::Allreduce);
    let expected =
        [(0, "swing"), (100, "ring"), (200, "swing")].map(|(b, n)| (b, n.to_owned(), Origin::Rules));
    assert_eq!(found[..3], expected);
    let plain = choices("ring:8", &config()).unwrap();
    assert_eq!(found[3].0, 1001);
    for bytes in [1001, 1 << 20, 1 << 30] {
        let pick = |choices: &Choices| choices.pick(Collective::Allreduce, bytes, false).name();
        assert_eq!(pick(&with), pick(&plain));
    }
    // Rules for other numbers of ranks and hosts do not apply here.
    let broadcast = Collective::Broadcast { root: 0 };
    assert_eq!(points(&with, broadcast), points(&plain, broadcast));
    // An excluded algorithm is not used because of a rule either.
    let excluded = read(&[settings[0], ("RINGROAD_ALGO", "^swing")]);
    let found = points(&choices("ring:8", &excluded).unwrap(), Collective::Allreduce);
    assert!(found.iter().all(|(_, name, _)| name != "swing"), "{found:?}");
    // On 64 ranks in a ring there is no bucket.
    let error = choices("ring:64", &read(&settings)).unwrap_err();
    assert!(
        matches!(&error, Error::Config(text) if text.contains("a rule of RINGROAD_TUNER_FILE") && text.contains("bucket")),
        "{error}"
    );
    // A rule for any number of ranks is then assumed to be for others.
    let general =
        Scratch::new("general", "allreduce,0,-1,bucket,simple,-1,-1,-1\nallreduce,0,9,swing,simple,-1,-1,-1");
    let kept = choices("ring:64", &read(&[("RINGROAD_TUNER_FILE", &general.path())])).unwrap();
    assert_eq!(points(&kept, Collective::Allreduce)[0], (0, "swing".to_owned(), Origin::Rules));
    assert_ne!(points(&kept, Collective::Allreduce)[1].2, Origin::Rules);
    let refused = |text: &str, expected: &str| {
        let file = Scratch::new("refused", text);
        let error = choices("ring:4", &read(&[("RINGROAD_TUNER_FILE", &file.path())])).unwrap_err();
        assert!(matches!(&error, Error::Config(text) if text.contains(expected)), "{error}");
    };
    refused("allreduce,0,1,nvls,simple,1,1,1", "cannot be used: line 1: unknown algorithm \"nvls\"");
    let error = choices("ring:4", &read(&[("RINGROAD_TUNER_FILE", "/nonexistent/rules")])).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/rules cannot be used: No such file"), "{error}");
}

/// A rule counts although its algorithm would not compete: its parameter is not tried, it is not worth trying here, or it
/// does not suit any network. It is used for nothing else.
#[test]
fn rules_may_name_what_does_not_compete() {
    let _watchdog = watch();
    let collective = Collective::Allreduce;
    let with = |topology: &Topology, anywhere: bool, names: &[&str]| {
        let rule = |name: &&str| Rule {
            collective,
            from_bytes: 100,
            to_bytes: 199,
            algorithm: algorithms::find(name).unwrap(),
            nodes: None,
            ranks: Some(topology.ranks()),
        };
        made(topology, &Wishes { anywhere, rules: names.iter().map(rule).collect(), ..Wishes::default() })
    };
    let cases = [
        ("switch:8", false, "double-binary-tree:3"),
        ("switch:8", false, "trees"),
        ("switch:8", true, "swing"),
        ("switch:150", true, "direct"),
    ];
    for (spec, anywhere, name) in cases {
        let topology = Topology::parse(spec).unwrap();
        let (plain, ruled) = (with(&topology, anywhere, &[]), with(&topology, anywhere, &[name]));
        let found = ruled.explain(collective, 150, false).unwrap();
        assert_eq!(found.origin, Origin::Rules, "{name} on {spec}");
        assert!(found.algorithm.name().starts_with(name), "{found:?}");
        assert!(found.candidates.iter().any(|candidate| candidate.algorithm == found.algorithm));
        for bytes in [0, 99, 200, 1 << 20, 1 << 30] {
            let pick = |choices: &Choices| choices.pick(collective, bytes, false).name();
            assert_eq!(pick(&ruled), pick(&plain), "{bytes} bytes with {name} on {spec}");
        }
    }
    // By this one ranks end with different bits of floats.
    let ruled = with(&Topology::parse("switch:8").unwrap(), false, &["trivance-latency"]);
    let is_kept = |any_order| ruled.pick(collective, 150, any_order).name() == "trivance-latency";
    assert!(is_kept(true) && !is_kept(false));
}

/// A profile in which bidirectional-ring is the fastest up to 4 KiB, and swing up to 1 MiB.
fn profile(topology: &str) -> Profile {
    profile_on(&Topology::parse(topology).unwrap())
}

fn profile_on(network: &Topology) -> Profile {
    let choices = choices_on(network, &config()).unwrap();
    let mut measurements = Vec::new();
    for member in algorithms::available(network, Collective::Allreduce) {
        for bytes in (3..=20).map(|power| 1u64 << power) {
            let favoured = if bytes <= 4096 { "bidirectional-ring" } else { "swing" };
            let seconds = 1e-6 + bytes as f64 * 1e-9 * if member.name() == favoured { 1.0 } else { 2.0 };
            let algorithm = member;
            measurements.push(Measurement { collective: Collective::Allreduce, algorithm, bytes, seconds });
        }
    }
    Profile::make(network, choices.place, &CostModel::default(), measurements).unwrap()
}

#[test]
fn measurements_decide_before_the_model() {
    let made = profile("ring:8");
    let file = Scratch::new("profile", &made.to_json());
    assert_eq!(Profile::read(file.path().as_ref()).unwrap(), made);
    let asked = read(&[("RINGROAD_PROFILE", &file.path())]);
    let with = choices("ring:8", &asked).unwrap();
    assert_eq!((with.profile.clone(), with.model), (Some(file.path()), made.fit.model));
    let found = points(&with, Collective::Allreduce);
    let small = with.explain(Collective::Allreduce, 64, false).unwrap();
    assert_eq!(
        (&*small.algorithm.name(), small.origin),
        ("bidirectional-ring", Origin::Measured),
        "{found:?}"
    );
    assert_eq!(with.pick(Collective::Allreduce, 1 << 16, false).name(), "swing");
    // Beyond the measured sizes the fitted model decides, as for other collectives.
    assert_eq!(with.explain(Collective::Allreduce, (1 << 20) + 1, false).unwrap().origin, Origin::Model);
    // A user's rule takes precedence, and so do costs that are set.
    let rules = Scratch::new("over", "allreduce,64,64,ring,simple,-1,-1,-1\n");
    let both = read(&[("RINGROAD_PROFILE", &file.path()), ("RINGROAD_TUNER_FILE", &rules.path())]);
    assert_eq!(choices("ring:8", &both).unwrap().pick(Collective::Allreduce, 64, false).name(), "ring");
    let stated = read(&[("RINGROAD_PROFILE", &file.path()), ("RINGROAD_COST", "step_latency=1s")]);
    let stated = choices("ring:8", &stated).unwrap();
    assert_eq!(stated.model.step_latency, 1.0);
    assert!(stated.switch_points(Collective::Allreduce).iter().all(|range| range.origin == Origin::Model));
}

/// The settings of a user in whose cache the file is the profile of a place.
fn storing(file: &Scratch, place: &Site) -> Config {
    let folder = file.0.join("profiles");
    fs::create_dir_all(&folder).unwrap();
    fs::rename(file.0.join("file"), folder.join(place.file_name())).unwrap();
    read(&[("RINGROAD_CACHE", &file.0.display().to_string())])
}

#[test]
fn profiles_of_other_places_are_not_used() {
    let plain = points(&choices("ring:8", &config()).unwrap(), Collective::Allreduce);
    let check_text = |profile: &str, expected: &str| {
        let file = Scratch::new("elsewhere", profile);
        let error = choices("ring:8", &read(&[("RINGROAD_PROFILE", &file.path())])).unwrap_err().to_string();
        assert!(error.contains("is not used: ") && error.contains(expected), "{error}");
        assert!(
            error.ends_with("run `ringroad tune` again for one that fits, RINGROAD_PROFILE=none uses none"),
            "{error}"
        );
        // A stored profile that does not fit is ignored.
        let found = storing(&file, &choices("ring:8", &config()).unwrap().place);
        let found = choices("ring:8", &found).unwrap();
        assert_eq!((found.profile.clone(), points(&found, Collective::Allreduce)), (None, plain.clone()));
    };
    let check = |profile: &Profile, expected: &str| check_text(&profile.to_json(), expected);
    let mut other = profile("ring:8");
    other.place.machines[0].cpu = "Z80".to_owned();
    check(&other, "it was measured elsewhere: the machine is ");
    let mut other = profile("ring:8");
    other.place.transport = "carrier pigeon".to_owned();
    check(&other, "the transport is \"in-process\" here, and was \"carrier pigeon\" there");
    let mut other = profile("ring:8");
    other.format = 99;
    check(&other, "it has format 99, and this version of ringroad reads 2");
    // Errors that only an edited file, or one of another version, has.
    let other = profile("ring:8").to_json();
    for list in ["rules", "measurements"] {
        let mut edited: serde_json::Value = serde_json::from_str(&other).unwrap();
        edited[list][0]["algorithm"] = "rign".into();
        check_text(&edited.to_string(), "unknown algorithm \"rign\"");
    }
    let mut other = profile("ring:8");
    (other.rules[0].from_bytes, other.rules[0].to_bytes) = (64, 8);
    check(&other, "a rule for allreduce is from 64 to 8 bytes");
    // A stored profile that fits is used.
    let made = profile("ring:8");
    let file = Scratch::new("stored", &made.to_json());
    let found = storing(&file, &made.place);
    assert!(choices("ring:8", &found).unwrap().profile.is_some());
    let nonsense = Scratch::new("nonsense", "{");
    let error = choices("ring:8", &read(&[("RINGROAD_PROFILE", &nonsense.path())])).unwrap_err();
    assert!(error.to_string().contains("it is not a profile: "), "{error}");
}

/// Some ranks of a job form a group of their own, and inherit the variable.
#[test]
fn a_profile_of_the_whole_job_does_not_stop_its_groups() {
    let plain = points(&choices("ring:4", &config()).unwrap(), Collective::Allreduce);
    let mut oversubscribed = profile("ring:4");
    oversubscribed.place.per_host += 1;
    for whole in [profile("ring:8"), oversubscribed] {
        let file = Scratch::new("whole", &whole.to_json());
        let part = choices("ring:4", &read(&[("RINGROAD_PROFILE", &file.path())])).unwrap();
        assert_eq!((part.profile.clone(), points(&part, Collective::Allreduce)), (None, plain.clone()));
    }
}

#[test]
fn networks_of_one_name_have_their_own_profiles() {
    let ring = Topology::parse("ring:4").unwrap();
    let slow = ring.clone().with_links(Some(1e9), None).unwrap();
    let graph = |wiring: &str| {
        let links = Topology::parse(wiring).unwrap().links().to_vec();
        Topology::from_links("office", 4, 4, links).unwrap()
    };
    for (here, there) in [(ring, slow), (graph("ring:4"), graph("mesh:4"))] {
        assert_eq!(here.spec(), there.spec());
        let made = profile_on(&here);
        assert_ne!(made.place.file_name(), profile_on(&there).place.file_name());
        let file = Scratch::new("links", &made.to_json());
        // Profiles know no budget.
        let asked = read(&[("RINGROAD_PROFILE", &file.path()), ("RINGROAD_BUDGET", "synthesis=1000s")]);
        assert_eq!(choices_on(&there, &asked).unwrap().profile, None);
        let used = choices_on(&here, &asked).unwrap();
        assert_eq!(used.profile, Some(file.path()));
        // The content of the file determines what follows from it.
        let found = Profile::read(file.path().as_ref()).unwrap();
        assert_eq!(
            found.switch_points(Collective::Allreduce, false).unwrap(),
            used.switch_points(Collective::Allreduce)
        );
        let explanation = found.explain(Collective::Allreduce, 64, false).unwrap();
        assert_eq!(explanation, used.explain(Collective::Allreduce, 64, false).unwrap());
    }
    // The same network and transport, between machines of another kind.
    let mut place = profile("ring:4").place;
    let name = place.file_name();
    place.machines[0].cores += 1;
    assert_ne!(place.file_name(), name);
}

// --------------------------------------------------------------------------------------------- explanations

#[test]
fn choices_are_explained() {
    let choices = choices("torus:4x4", &config()).unwrap();
    for collective in Collective::ALL {
        let ranges = choices.switch_points(collective).to_vec();
        for (i, range) in ranges.iter().enumerate() {
            let last = ranges.get(i + 1).map(|next| next.from_bytes - 1);
            for bytes in [range.from_bytes, last.unwrap_or(Bytes::MAX)] {
                let found = choices.explain(collective, bytes, false).unwrap();
                assert_eq!((&found.algorithm, found.range), (&range.algorithm, (range.from_bytes, last)));
                let mut allowed = found.candidates.iter().filter(|candidate| candidate.bit_identical);
                assert_eq!(allowed.next().unwrap().algorithm, range.algorithm, "{collective} of {bytes}");
                let Some(rival) = found.runner_up else { continue };
                assert_eq!(rival, allowed.next().unwrap().algorithm);
                // Of candidates that take as long within 1 % in simulations, the one with the lowest cost is chosen.
                let simulated = found.candidates.iter().any(|candidate| candidate.free_seconds.is_some());
                assert!(found.margin.unwrap() >= if simulated { -0.01 } else { -1e-9 }, "{found:?}");
                if let (Some((from, None)), false) = (found.runner_up_bytes, simulated) {
                    assert!(
                        last.is_some_and(|last| from > last),
                        "{collective}: {rival} overtakes {} at {from}",
                        range.algorithm
                    );
                }
            }
        }
    }
}

// ----------------------------------------------------------------------------------- made for the graph

fn made(topology: &Topology, wishes: &Wishes) -> Choices {
    let place = Site::from_endpoints(&[], 1, topology);
    let lowering =
        LoweringSettings { segment: 1 << 19, part: usize::MAX, two_areas: true, cache: CacheMode::Shared };
    Choices::make(topology.clone(), CostModel::default(), lowering, place, wishes).unwrap()
}

/// On large networks most candidates are never judged, and yet the choice is the same as among all costs.
#[test]
fn bounds_lead_to_the_same_choice() {
    let _watchdog = watch();
    let specs = ["hyperx:12x12", "torus:12x12", "switch:150", "hosts:16x9", "directed-circulant:130:1,7,30"];
    for topology in specs.map(|spec| Topology::parse(spec).unwrap()) {
        let choices = made(&topology, &Wishes::default());
        for collective in Collective::ALL {
            let mut all =
                ringroad_runtime::choice::choices::candidates(&topology, &choices.model, collective, &[])
                    .unwrap();
            all.retain(|candidate| candidate.bit_identical);
            let table = match &all[..] {
                [only] => SwitchTable::always(only.member),
                all => SwitchTable::build(&choices.model, all).unwrap(),
            };
            assert_eq!(choices.switch_points(collective), table.ranges(), "{collective} on {topology}");
        }
    }
}

#[test]
fn what_is_made_for_the_graph_is_left_out_when_time_runs_out() {
    let topology = Topology::parse("without(torus:2x4, 0-1)").unwrap();
    let uses = |choices: &Choices| {
        let ranges = choices.switch_points(Collective::Allreduce).iter();
        ranges.into_iter().any(|range| range.algorithm.is_made_for_graph(Collective::Allreduce))
    };
    let none = Some(Duration::ZERO);
    assert!(uses(&made(&topology, &Wishes::default())));
    assert!(!uses(&made(&topology, &Wishes { synthesis_budget: none, ..Wishes::default() })));
    // An algorithm that is named alone is made in any case.
    let only = Algorithms::parse("allreduce:bfb").unwrap();
    assert!(uses(&made(
        &topology,
        &Wishes { synthesis_budget: none, algorithms: only, ..Wishes::default() }
    )));
}

/// Ranks that are told another digest refuse to run, and say what to do.
#[test]
fn all_ranks_have_the_schedule_that_rank_0_chose() {
    let config = read(&[("RINGROAD_ALGO", "allgather:bfb")]);
    let group = group_with(8, 0, &config, &on("without(hypercube:3, 0-1)"));
    let outputs = each(&group, |communicator| {
        let input = Memory::from_slice(&[communicator.rank() as f32; 5]);
        let request = Request::new(
            Operation::Collective(Collective::Allgather),
            DType::F32,
            5,
            input,
            Memory::zeroed(160),
        );
        communicator.start(request).unwrap().finish().unwrap().to_vec::<f32>()
    });
    let expected: Vec<f32> = (0..40).map(|i| (i / 5) as f32).collect();
    assert!(outputs.iter().all(|output| *output == expected));
    // The digest is part of the choices.
    let choices = group[0].choices();
    let text = serde_json::to_string(&choices).unwrap();
    assert_eq!(serde_json::from_str::<Choices>(&text).unwrap(), choices);
    let topology = Topology::parse("without(hypercube:3, 0-1)").unwrap();
    let member = algorithms::find("bfb").unwrap();
    let digest = member.build(&topology, Collective::Allgather).unwrap().digest();
    assert!(text.contains(&digest), "{text}");
}
