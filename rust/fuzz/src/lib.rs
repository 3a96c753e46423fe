//! What the targets check of a value that was read.

use ringroad_core::algorithms::{self, find};
use ringroad_core::cost::{Candidate, CostModel, ScheduleCost, SwitchTable};
use ringroad_core::interchange::msccl;
use ringroad_core::simulate::Simulator;
use ringroad_core::{Collective, Schedule, Topology};
use ringroad_lab::formats::{chakra, goal, mscclpp};

/// The most ranks, chunks and slots of a schedule that is verified.
const MAX_VERIFIED_SIZES: [usize; 3] = [16, 64, 8];
/// The most messages of such a schedule.
const MOST_SENDS: usize = 1000;

/// Checks that a schedule is read again as it is written. One that is small is verified, and if it is right also
/// written in all formats.
pub fn schedule(schedule: &Schedule) {
    assert_eq!(&Schedule::from_json(&schedule.to_json()).unwrap(), schedule);
    let sends: usize = schedule.steps.iter().map(|step| step.sends.len() + step.locals.len()).sum();
    let sizes = [schedule.ranks, schedule.chunks, schedule.slots()];
    if sends > MOST_SENDS || sizes.iter().zip(MAX_VERIFIED_SIZES).any(|(size, most)| *size > most) {
        return;
    }
    let (whole, is_right) = (schedule.expand(), schedule.verify().is_ok());
    assert_eq!(whole.verify().is_ok(), is_right);
    let _ = schedule.to_string();
    if !is_right {
        return;
    }
    if let Ok(text) = msccl::write(schedule) {
        let read = msccl::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        read.verify().unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(msccl::read(&msccl::write(&read).unwrap()).unwrap(), read, "{text}");
        if schedule.slots() == 1 {
            assert_eq!(read.digest(), whole.digest(), "{text}");
        }
    }
    let _ = mscclpp::write(schedule);
    let simulator = Simulator::default();
    let _ = (goal::write(schedule, 1000, &simulator), chakra::write(schedule, 1000, &simulator));
}

/// Checks that a network is read again as it is written. On one that is small, an algorithm is chosen.
pub fn topology(topology: &Topology) {
    let text = serde_json::to_string(topology).unwrap();
    let again: Topology = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(&again, topology, "{text}");
    if topology.ranks() > 8 || topology.links().len() > 100 {
        return;
    }
    let _ = topology.digest();
    let members = algorithms::available(topology, Collective::Allreduce);
    let model = CostModel::default();
    let candidates: Vec<Candidate> = members
        .into_iter()
        .filter(|member| !member.is_made_for_graph(Collective::Allreduce))
        .filter_map(|member| {
            let schedule = member.build(topology, Collective::Allreduce).ok()?;
            let cost = ScheduleCost::from_schedule(&schedule, topology).ok()?;
            Some(Candidate::new(member, cost, true))
        })
        .collect();
    let _ = SwitchTable::build(&model, &candidates);
    let _ = find("bfb").unwrap().build(topology, Collective::Allgather);
}

/// The whole numbers in a spec, which say how large its network is.
pub fn numbers(spec: &str) -> impl Iterator<Item = usize> + '_ {
    spec.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok())
}
