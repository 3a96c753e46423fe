//! The core for browsers, as WebAssembly. `docs/playground` is the page that uses it, and `make playground` builds it.
//!
//! Results are JSON or arrays of numbers, with the names and units of `ringroad explain --json`: seconds, bytes, and loads in
//! units of the vector. Errors are the core's, as JavaScript errors. Numbers of bytes are whole numbers up to 2^53, because
//! JavaScript has no larger ones.

use ringroad_core::algorithms;
use ringroad_core::cost::{link_loads, Candidate, CostModel, ScheduleCost};
use ringroad_core::selection::{self, candidates, Choice};
use ringroad_core::topology::{kinds, named_graphs, operators, Link};
use ringroad_core::{units, Action, Bytes, Collective, Schedule, Topology};
use serde_json::{json, Value};
use wasm_bindgen::prelude::*;

type WebResult<T> = Result<T, JsError>;

const MOST_BYTES: Bytes = 1 << 50;

fn raise(error: impl std::fmt::Display) -> JsError {
    JsError::new(&error.to_string())
}

/// Everything that can be named: networks, operators, collectives and algorithms, as JSON.
#[wasm_bindgen]
pub fn catalogue() -> String {
    let pair = |(example, summary): (&str, String)| json!({ "example": example, "summary": summary });
    let algorithms =
        algorithms::catalogue().map(|a| json!({ "name": a.name, "summary": a.summary, "source": a.source }));
    let collectives = Collective::ALL.map(|c| json!({ "name": c.name(), "rooted": c.root().is_some() }));
    json!({
        "networks": kinds().into_iter().map(pair).collect::<Vec<Value>>(),
        "graphs": named_graphs().collect::<Vec<&str>>(),
        "operators": operators().map(|o| pair((o.example, o.summary.to_owned()))).collect::<Vec<Value>>(),
        "collectives": collectives,
        "algorithms": algorithms.collect::<Vec<Value>>(),
    })
    .to_string()
}

/// Reads a number of bytes, such as `64KiB`.
#[wasm_bindgen(js_name = readBytes)]
pub fn read_bytes(text: &str) -> WebResult<f64> {
    match units::bytes(text).map_err(raise)? {
        bytes if bytes > MOST_BYTES => Err(raise("the vector is too long; write at most 1024T")),
        bytes => Ok(bytes as f64),
    }
}

/// A network; `Topology` in JavaScript.
#[wasm_bindgen(js_name = Topology)]
pub struct WebTopology(Topology);

#[wasm_bindgen(js_class = Topology)]
impl WebTopology {
    /// Reads a spec, such as `torus:8x8`.
    pub fn parse(spec: &str) -> WebResult<WebTopology> {
        Topology::parse(spec).map(WebTopology).map_err(raise)
    }

    /// Reads the JSON of a network, as `ringroad topology --save net.json` writes it.
    #[wasm_bindgen(js_name = fromJson)]
    pub fn from_json(text: &str) -> WebResult<WebTopology> {
        serde_json::from_str(text).map(WebTopology).map_err(raise)
    }

    /// The network as JSON, which the command line reads.
    #[wasm_bindgen(js_name = toJson)]
    pub fn to_json(&self) -> WebResult<String> {
        serde_json::to_string(&self.0).map_err(raise)
    }

    /// The number of ranks.
    #[wasm_bindgen(getter)]
    pub fn ranks(&self) -> usize {
        self.0.ranks()
    }

    /// The number of ranks, switches and hosts' memories.
    #[wasm_bindgen(getter)]
    pub fn nodes(&self) -> usize {
        self.0.nodes()
    }

    /// The network without all links between these pairs of nodes, in both directions. The array has the ends in turn.
    pub fn without(&self, ends: Vec<usize>) -> WebResult<WebTopology> {
        let pairs: Vec<(usize, usize)> = ends.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        self.0.without_links(&pairs).map(WebTopology).map_err(raise)
    }

    /// What `ringroad topology --json` prints, as JSON, with a drawing, and the links instead of their number.
    pub fn describe(&self) -> String {
        let WebTopology(topology) = self;
        let link = |l: &Link| json!([l.source, l.target, l.capacity, l.bandwidth, l.seconds()]);
        let mut found = json!(topology.facts(false));
        found["drawing"] = json!(topology.drawing());
        found["links"] = topology.links().iter().map(link).collect();
        found.to_string()
    }
}

/// The coefficients of the cost model; `Model` in JavaScript.
#[wasm_bindgen(js_name = Model)]
pub struct WebModel(CostModel);

#[wasm_bindgen(js_class = Model)]
impl WebModel {
    /// The default model, with the coefficients that are given: seconds to start a step, seconds for each hop, and bytes
    /// per second of every link.
    #[wasm_bindgen(constructor)]
    pub fn new(
        step_latency: Option<f64>,
        hop_latency: Option<f64>,
        bandwidth: Option<f64>,
    ) -> WebResult<WebModel> {
        let valid = |value: Option<f64>| value.is_none_or(|value| value.is_finite() && value >= 0.0);
        if !valid(step_latency) || !valid(hop_latency) {
            return Err(raise("latencies must be 0 or more seconds"));
        }
        if !valid(bandwidth) || bandwidth == Some(0.0) {
            return Err(raise("bandwidth must be above 0 bytes per second"));
        }
        let default = CostModel::default();
        let step_latency = step_latency.unwrap_or(default.step_latency);
        Ok(WebModel(CostModel { step_latency, hop_latency, bandwidth, ..default }))
    }
}

/// All algorithms for a collective on a network, with their costs; `Contest` in JavaScript.
#[wasm_bindgen(js_name = Contest)]
pub struct WebContest {
    topology: Topology,
    collective: Collective,
    /// The latest model, and the candidates by it.
    latest: Option<(CostModel, Vec<Candidate>)>,
}

#[wasm_bindgen(js_class = Contest)]
impl WebContest {
    /// `root` counts where the collective has one.
    #[wasm_bindgen(constructor)]
    pub fn new(network: &WebTopology, collective: &str, root: usize) -> WebResult<WebContest> {
        let collective = collective.parse::<Collective>().map_err(raise)?.with_root(root);
        let topology = network.0.clone();
        Ok(WebContest { topology, collective, latest: None })
    }

    /// Which algorithm is chosen for all sizes, with the reasons and all costs for `bytes`: what `ringroad explain --json`
    /// prints.
    pub fn compare(&mut self, model: &WebModel, bytes: f64) -> WebResult<String> {
        let WebContest { topology, collective, latest } = self;
        let candidates = match latest.take().filter(|(by, _)| *by == model.0) {
            Some((_, candidates)) => candidates,
            None => candidates(topology, &model.0, *collective).map_err(raise)?,
        };
        let (_, candidates) = latest.insert((model.0, candidates));
        let choice = &Choice::by_cost(*collective, &model.0, candidates).map_err(raise)?;
        let contest = selection::Contest { topology, model: &model.0, candidates, choice };
        serde_json::to_string(&contest.overview(&[bytes as Bytes])).map_err(raise)
    }
}

/// An algorithm's schedule on a network, verified, with what each link carries in each step.
#[wasm_bindgen]
pub struct Steps {
    schedule: Schedule,
    cost: ScheduleCost,
    loads: Vec<Vec<f64>>,
}

#[wasm_bindgen]
impl Steps {
    /// Builds and verifies the schedule. `root` counts where the collective has one.
    #[wasm_bindgen(constructor)]
    pub fn new(network: &WebTopology, algorithm: &str, collective: &str, root: usize) -> WebResult<Steps> {
        let collective = collective.parse::<Collective>().map_err(raise)?.with_root(root);
        let member = algorithms::find(algorithm).map_err(raise)?;
        let schedule = member.build(&network.0, collective).map_err(raise)?;
        schedule.verify().map_err(raise)?;
        let cost = ScheduleCost::from_schedule(&schedule, &network.0).map_err(raise)?;
        let loads = link_loads(&schedule, &network.0).map_err(raise)?;
        Ok(Steps { schedule, cost, loads })
    }

    /// The number of steps.
    #[wasm_bindgen(getter)]
    pub fn length(&self) -> usize {
        self.schedule.steps.len()
    }

    /// The number of chunks into which a vector is cut.
    #[wasm_bindgen(getter, js_name = chunksPerVector)]
    pub fn chunks_per_vector(&self) -> usize {
        self.schedule.chunks_per_vector()
    }

    /// The most that a link carries in one step, as a fraction of the message, divided by the link's capacity.
    #[wasm_bindgen(getter, js_name = mostLoad)]
    pub fn most_load(&self) -> f64 {
        self.cost.steps.iter().map(|step| step.link_load).fold(0.0, f64::max)
    }

    /// The seconds that each step takes for a vector of `bytes`.
    pub fn seconds(&self, model: &WebModel, bytes: f64) -> Vec<f64> {
        let alone = |step| ScheduleCost { steps: vec![step], busiest_link: 0.0 };
        let steps = self.cost.steps.iter();
        steps.map(|step| model.0.seconds(&alone(*step), bytes as Bytes)).collect()
    }

    /// What each link carries in a step, as a fraction of the message; empty if there is no such step.
    pub fn loads(&self, step: usize) -> Vec<f64> {
        self.loads.get(step).cloned().unwrap_or_default()
    }

    /// What each link carries in all steps together, as a fraction of the message.
    #[wasm_bindgen(js_name = totalLoads)]
    pub fn total_loads(&self) -> Vec<f64> {
        let links = self.loads.first().map_or(0, Vec::len);
        (0..links).map(|link| self.loads.iter().map(|step| step[link]).sum()).collect()
    }

    /// The messages of a step: for each its source, its destination, its number of chunks, and 1 if the receiver reduces
    /// them, else 0.
    pub fn messages(&self, step: usize) -> Vec<usize> {
        if step >= self.schedule.steps.len() {
            return Vec::new();
        }
        let all = self.schedule.view().transfers(step).into_iter();
        all.flat_map(|t| [t.source, t.destination, t.chunks, usize::from(t.action == Action::Reduce)])
            .collect()
    }

    /// The schedule as JSON, which the command line reads.
    #[wasm_bindgen(js_name = toJson)]
    pub fn to_json(&self) -> String {
        self.schedule.to_json()
    }
}
