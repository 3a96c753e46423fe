//! Networks of which traces tell nothing: switches without addresses, clouds. What rates tell is a tree of switches.

use std::collections::BTreeMap;

use super::evidence::Evidence;
use super::network::{Cable, Cabling};
use super::racks::Racks;
use super::rates::How;

/// A rack whose hosts can send out this part of what they can send is limited by nothing: noise alone made it a rack.
const LIMITED: f64 = 0.85;

/// The network between the hosts, from rates alone.
pub(super) fn network(evidence: &Evidence, notes: &mut Vec<String>) -> Cabling {
    let hosts = evidence.hosts.len();
    let Racks { racks, cables: loads, uplinks, is_shared, .. } = Racks::from_evidence(evidence);
    let several: Vec<usize> = (0..racks.len()).filter(|rack| racks[*rack].len() > 1).collect();
    // What all hosts, and those of a rack, can send and receive.
    let can = |hosts: &mut dyn Iterator<Item = usize>, way: usize| -> f64 {
        hosts.filter_map(|host| loads[host][way].capacity()).map(|(rate, _)| rate).sum()
    };
    let all = [0, 1].map(|way| can(&mut (0..hosts), way));
    let is_limited = |rack: &usize| {
        (0..2).any(|way| {
            let own = [0, 1].map(|way| can(&mut racks[*rack].iter().copied(), way));
            let most = own[way].min(all[1 - way] - own[1 - way]);
            uplinks[*rack][way].0.shared_capacity().is_some_and(|(rate, _)| rate < LIMITED * most)
        })
    };
    let limited: Vec<usize> = several.iter().copied().filter(is_limited).collect();
    let has_racks = is_shared && racks.len() > 1 && !limited.is_empty();
    if is_shared && several.is_empty() {
        notes.push(
            "flows slow each other down, but hosts form no racks: one switch stands for the network"
                .to_owned(),
        );
    }
    let several = limited;
    let top = hosts + if has_racks { several.len() } else { 0 };
    let mut above = vec![top; hosts];
    let mut cables = Vec::new();
    for (place, rack) in several.iter().enumerate().filter(|_| has_racks) {
        let switch = hosts + place;
        racks[*rack].iter().for_each(|host| above[*host] = switch);
        let how = |is_slow: bool| if is_slow { How::Measured } else { How::Derived };
        let [(out, slow_out), (into, slow_in)] = &uplinks[*rack];
        cables.push(Cable::new(switch, top, out.rate(out.shared_capacity(), how(*slow_out))));
        cables.push(Cable::new(top, switch, into.rate(into.shared_capacity(), how(*slow_in))));
    }
    for (host, [up, down]) in loads.iter().enumerate() {
        cables.push(Cable::new(host, above[host], up.rate(up.capacity(), How::Measured)));
        cables.push(Cable::new(above[host], host, down.rate(down.capacity(), How::Measured)));
    }
    Cabling { hosts, nodes: top + 1, cables, paths: BTreeMap::new() }
}
