//! Tests which algorithms add up all elements in one order, and which of them in the same order.

use std::collections::BTreeMap;

use ringroad_core::algorithms::{available, find};
use ringroad_core::schedule::{Action, ChunkSet, Expressions, Schedule, Send, Side};
use ringroad_core::{Collective, Topology};

/// The algorithms whose results are one expression, grouped by expression, in catalogue order.
fn families(topology: &str, collective: Collective) -> Vec<Vec<String>> {
    let topology = Topology::parse(topology).unwrap();
    let mut expressions = Expressions::new(topology.ranks());
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for member in available(&topology, collective) {
        if let Some(expression) = expressions.expression_of(&member.build(&topology, collective).unwrap()) {
            found.entry(expression).or_default().push(member.name());
        }
    }
    let mut found: Vec<Vec<String>> = found.into_values().collect();
    found.sort_by_key(|family| std::cmp::Reverse(family.len()));
    found
}

#[test]
fn algorithms_that_add_up_in_one_order() {
    let mut text = String::new();
    for topology in ["ring:2", "ring:3", "ring:4", "ring:7", "ring:8", "torus:4x4", "hosts:2x4"] {
        for collective in [Collective::Allreduce, Collective::ReduceScatter, Collective::Reduce { root: 1 }] {
            for family in families(topology, collective) {
                text += &format!("{topology} {}: {}\n", collective.name(), family.join(", "));
            }
        }
    }
    insta::assert_snapshot!(text);
}

/// A chain adds up every rank's result in the order of the ranks, whatever the pieces; doubling adds up in another order.
#[test]
fn scans_add_up_in_one_order() {
    for collective in [Collective::Scan, Collective::Exscan] {
        let pieces = [1, 2, 4, 8, 16, 32].map(|pieces| format!("prefix-chain:{pieces}"));
        let expected = [pieces.to_vec(), vec!["prefix-doubling".to_owned()]];
        assert_eq!(families("ring:7", collective), expected, "{collective}");
        assert_eq!(families("ring:2", collective).len(), 1, "{collective}: there is only one order");
    }
}

/// Operands that may not change places: what a chain brings is from earlier ranks. Doubling and rings add up in other
/// orders, although a ring of two ranks adds up the same values.
#[test]
fn sides_of_operands() {
    let side = |topology: &str, name: &str, collective| {
        let topology = Topology::parse(topology).unwrap();
        let schedule = find(name).unwrap().build(&topology, collective).unwrap();
        schedule.verify().unwrap();
        Expressions::side_in_rank_order(&schedule)
    };
    for collective in [Collective::Scan, Collective::Exscan] {
        assert_eq!(side("ring:5", "prefix-chain:4", collective), Some(Side::Left), "{collective}");
        assert_eq!(side("ring:5", "prefix-doubling", collective), None, "{collective}");
    }
    assert_eq!(side("ring:5", "gather-sum", Collective::Allreduce), Some(Side::Right));
    assert_eq!(side("ring:5", "binomial", Collective::Reduce { root: 0 }), None);
    assert_eq!(side("ring:2", "binomial", Collective::Reduce { root: 0 }), Some(Side::Right));
    assert_eq!(side("ring:2", "binomial", Collective::Reduce { root: 1 }), Some(Side::Left));
    assert_eq!(side("ring:2", "ring", Collective::Allreduce), None, "a block at each rank");
}

/// Algorithms that are declared to add up in the order of the ranks do so. On all these networks, up to 255 ranks,
/// there is such an algorithm for every collective that reduces.
#[test]
fn an_algorithm_in_rank_order_always_exists() {
    let switches = (1..40).chain([100, 255]).map(|ranks| format!("switch:{ranks}"));
    for spec in switches.chain(["ring:6", "torus:3x4", "hosts:2x4"].map(str::to_owned)) {
        let topology = Topology::parse(&spec).unwrap();
        let ranks = topology.ranks();
        let roots = if ranks < 12 { 0..ranks } else { ranks - 1..ranks };
        let reduces = roots.map(|root| Collective::Reduce { root });
        for collective in [Collective::Allreduce, Collective::ReduceScatter].into_iter().chain(reduces) {
            let mut found = 0;
            for member in available(&topology, collective) {
                if member.in_rank_order(collective) {
                    let schedule = member.build(&topology, collective).unwrap();
                    let mut expressions = Expressions::new(ranks);
                    let expected = expressions.in_rank_order();
                    let what = format!("{collective} on {spec} by {member}");
                    assert_eq!(expressions.expression_of(&schedule), Some(expected), "{what}");
                    if ranks < 40 {
                        let side = Expressions::side_in_rank_order(&schedule);
                        assert_eq!(side, Some(Side::Right), "{what}");
                    }
                    found += 1;
                }
            }
            assert!(found > 0, "{collective} on {spec}");
        }
    }
}

#[test]
fn different_orders_differ() {
    let send = |source, destination, chunk, action| Send {
        source,
        destination,
        chunks: ChunkSet::range(chunk, chunk + 1),
        action,
        port: 0,
        from: 0,
        into: 0,
    };
    // For each chunk two sends that are reduced, one after the other; then the rank with the result sends it to the
    // others.
    let allreduce = |chunks: &[[(usize, usize); 2]]| {
        let mut schedule = Schedule::empty("test", Collective::Allreduce, 3, chunks.len());
        for turn in 0..2 {
            let gives = |(chunk, path): (usize, &[(usize, usize); 2])| {
                send(path[turn].0, path[turn].1, chunk, Action::Reduce)
            };
            schedule.push(chunks.iter().enumerate().map(gives).collect());
        }
        let last = |(chunk, path): (usize, &[(usize, usize); 2])| {
            let holder = path[1].1;
            (0..3)
                .filter(move |r| *r != holder)
                .map(move |r| send(holder, r, chunk, Action::Copy))
                .collect::<Vec<_>>()
        };
        schedule.push(chunks.iter().enumerate().flat_map(last).collect());
        schedule.verify().unwrap();
        schedule
    };
    let mut expressions = Expressions::new(3);
    let mut expression = |chunks: &[[(usize, usize); 2]]| expressions.expression_of(&allreduce(chunks));
    let first = expression(&[[(0, 1), (1, 2)]]);
    assert!(first.is_some());
    assert_eq!(expression(&[[(1, 0), (0, 2)]]), first, "(0 + 1) + 2 is (1 + 0) + 2");
    assert_eq!(expression(&[[(0, 1), (2, 1)]]), first, "wherever it is added up");
    assert_ne!(expression(&[[(1, 2), (0, 2)]]), first, "(1 + 2) + 0 is another sum");
    assert_eq!(expression(&[[(0, 1), (1, 2)], [(1, 0), (0, 2)]]), first);
    assert_eq!(expression(&[[(0, 1), (1, 2)], [(1, 2), (0, 2)]]), None, "one for each chunk");
    assert_eq!(Expressions::new(4).expression_of(&allreduce(&[[(0, 1), (1, 2)]])), None, "other ranks");
}

/// Algorithms whose ranks end with the same bits are found to do so, and of the others at least one not to.
#[test]
fn ranks_agree_where_the_catalogue_says_so() {
    let mut differing = 0;
    for spec in ["ring:3", "ring:5", "ring:8", "torus:3x3", "torus:2x4", "hosts:2x3", "mesh:2x3"] {
        let topology = Topology::parse(spec).unwrap();
        for collective in Collective::ALL {
            for member in available(&topology, collective) {
                let Ok(schedule) = member.build(&topology, collective) else { continue };
                let agree = Expressions::new(topology.ranks()).agree(&schedule);
                assert!(agree || !member.bit_identical(&topology, collective), "{member} on {spec}");
                differing += usize::from(!agree);
            }
        }
    }
    assert!(differing > 10, "{differing}");
}
