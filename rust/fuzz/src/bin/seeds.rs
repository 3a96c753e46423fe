//! Writes the seeds, the small files with which the targets begin, into a folder. `tools/fuzz.sh` runs it.

use std::fs;
use std::path::PathBuf;

use ringroad_core::algorithms::find;
use ringroad_core::cost::{rules_of_table, write_rules, CostModel, Measurement, SwitchTable};
use ringroad_core::interchange::msccl;
use ringroad_core::topology::{families, named_graphs, operators, Link};
use ringroad_core::{Collective, Schedule, Topology, Wire};
use ringroad_lab::routes::shortest;
use ringroad_runtime::bootstrap::{EndpointInfo, Handle};
use ringroad_runtime::choice::profile::{Machine, Profile, Site};
use ringroad_runtime::fuzzing;
use serde_json::json;

/// Mutations of longer files find less.
const MAX_TEXT_LENGTH: usize = 10_000;

fn schedules() -> Vec<Schedule> {
    let rows = [
        ("ring", "ring:3", Collective::Allreduce),
        ("swing", "torus:2x4", Collective::Allreduce),
        ("generalized:1", "ring:3", Collective::Allreduce),
        ("trivance-latency", "ring:5", Collective::Allreduce),
        ("bruck", "ring:3", Collective::Allgather),
        ("halving-doubling", "ring:4", Collective::ReduceScatter),
        ("binomial", "ring:3", Collective::Broadcast { root: 1 }),
        ("binomial", "ring:3", Collective::Reduce { root: 0 }),
        ("binomial", "ring:4", Collective::Gather { root: 0 }),
        ("pairwise", "ring:3", Collective::Alltoall),
        ("prefix-doubling", "ring:4", Collective::Scan),
        ("bfb", "circulant:8:1,3", Collective::Allgather),
    ];
    let build = |(name, spec, collective): (&str, &str, Collective)| {
        find(name).unwrap().build(&Topology::parse(spec).unwrap(), collective).unwrap()
    };
    rows.into_iter().map(build).collect()
}

fn specs() -> Vec<String> {
    let own = [
        "torus:4x4,routing=single-path",
        "product(ring:3, circulant:8:1,3)",
        "degree(line(complete:3), 2)",
        "without(torus:2x4, 0-1, 2>3)",
        "fattree:2x4:2",
    ];
    let all = families().map(|family| family.example).chain(operators().map(|operator| operator.example));
    let all = all.chain(named_graphs()).chain(own);
    all.map(str::to_owned).collect()
}

fn networks() -> Vec<String> {
    let parse = |spec: &str| Topology::parse(spec).unwrap();
    let torus = parse("torus:2x2");
    let routed = shortest(&torus).unwrap();
    let link =
        |(source, target)| Link { capacity: 2.0, extra_latency: 1e-6, ..Link::between(source, target) };
    let links = [(0, 2), (2, 0), (1, 2), (2, 1)].map(link).to_vec();
    let all = [
        torus.clone().with_routes(routed).unwrap(),
        torus.with_links(Some(1e9), None).unwrap(),
        parse("hosts:2x2").with_processing(1e-6).unwrap(),
        Topology::from_links("star", 2, 3, links).unwrap(),
        Topology::from_links("grid", 4, 4, parse("ring:4").links().to_vec())
            .unwrap()
            .with_dimensions(&[2, 2])
            .unwrap(),
    ];
    all.iter().map(|network| serde_json::to_string(network).unwrap()).collect()
}

fn rules() -> String {
    let [ring, swing] = ["ring", "swing"].map(|name| find(name).unwrap());
    let table = SwitchTable::always(swing);
    let written = |collective| rules_of_table(collective, &table);
    let mut rules = written(Collective::Allreduce);
    rules[0].algorithm = ring;
    rules[0].ranks = Some(8);
    write_rules(&rules)
}

fn profile() -> String {
    let topology = Topology::parse("ring:3").unwrap();
    let machines = vec![Machine { cpu: "a processor".to_owned(), cores: 2 }];
    let (transport, version) = ("ucx".to_owned(), "1.18".to_owned());
    let place = Site { topology: topology.clone(), per_host: 1, transport, version, machines };
    let measured = |(name, bytes, seconds): (&str, u64, f64)| Measurement {
        collective: Collective::Allreduce,
        algorithm: find(name).unwrap(),
        bytes,
        seconds,
    };
    let rows =
        [("ring", 8, 2e-5), ("ring", 1 << 20, 1e-3), ("gather-sum", 8, 1e-5), ("gather-sum", 1 << 20, 2e-3)];
    let times = rows.into_iter().map(measured).collect();
    Profile::make(&topology, place, &CostModel::default(), times).unwrap().to_json()
}

fn values() -> Vec<(char, Vec<u8>)> {
    let mut endpoint = EndpointInfo::new(1, 4, "ucx", "1.18", vec![vec![1, 2, 3], vec![255]]);
    (endpoint.host, endpoint.cpu, endpoint.pid, endpoint.instance) =
        ("a".to_owned(), "a processor".to_owned(), 17, 3);
    (endpoint.pid_space, endpoint.net_space) =
        ("boot pid:[1] time:[2]".to_owned(), "boot net:[3]".to_owned());
    (endpoint.cpus, endpoint.cores, endpoint.started) = (vec![0, 1], 2, Some(99));
    let handle = json!({
        "host": "a", "pid": 17, "pid_space": "", "net_space": "", "instance": 3, "ringroad": 1,
        "token": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], "places": ["10.0.0.1:99", "[::1]:7"],
    });
    let handle = handle.to_string();
    endpoint.handle = Some(Handle::parse(&handle).unwrap());
    let text = |letter: char, text: &str| (letter, text.as_bytes().to_vec());
    vec![
        ('c', serde_json::to_vec(&endpoint).unwrap()),
        text('e', r#"{"rank":2,"late":false,"message":"rank 2 gave up"}"#),
        text('h', &handle),
        text('n', r#"{"local":[[0,0,null],[2,2,"not permitted"]],"obstacle":"none"}"#),
        ('o', fuzzing::chosen()),
        text('o', r#"{"Err":{"Topology":"unknown"}}"#),
        text('p', "0123456789abcdef"),
        text(
            'w',
            r#"{"reason":{"mismatch":{"number":3}},"message":"why","calls":[[3,"allreduce"]],"ended":2}"#,
        ),
        text('w', r#"{"reason":"abort","message":"why","calls":[]}"#),
    ]
}

fn main() {
    let root = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    let write = |target: &str, contents: Vec<Vec<u8>>| {
        let folder = root.join(target);
        fs::create_dir_all(&folder).unwrap();
        for (number, content) in contents.iter().enumerate() {
            fs::write(folder.join(format!("{number:02}")), content).unwrap();
        }
    };
    let texts = |all: Vec<String>| all.into_iter().map(String::into_bytes).collect();
    let all = schedules();
    write("schedule_json", texts(all.iter().map(Schedule::to_json).collect()));
    let programs = all.iter().filter_map(|schedule| msccl::write(schedule).ok());
    write("msccl_xml", texts(programs.filter(|text| text.len() < MAX_TEXT_LENGTH).collect()));
    write("topology_spec", texts(specs()));
    write("topology_json", texts(networks()));
    write("tuner_rules", texts(vec![rules()]));
    write(
        "preferences",
        texts(vec!["allreduce:ring,swing;^bruck;file:a.json".to_owned(), "generalized:2".to_owned()]),
    );
    write("profile", texts(vec![profile()]));
    let values: Vec<Vec<u8>> =
        values().into_iter().map(|(letter, content)| [&[letter as u8][..], &content].concat()).collect();
    write("store_values", values.clone());
    write("store_seals", vec![b"content".to_vec(), [&7u32.to_le_bytes()[..], &[0; 39]].concat()]);
    write("schedule_cache", vec![fuzzing::cached()]);
    write("wire", messages());
    write("tcp_connection", fuzzing::connections());
}

/// A message in every format, of a whole block and one in which a number is not finite.
fn messages() -> Vec<Vec<u8>> {
    let message = |format: usize| {
        let block = |scale: f32| scale.to_le_bytes().into_iter().chain(0..=255);
        [format as u8, 100].into_iter().chain(block(0.5)).chain(block(-2.0)).collect()
    };
    (0..Wire::ALL.len()).map(message).collect()
}
