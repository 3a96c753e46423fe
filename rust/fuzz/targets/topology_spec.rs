//! Specs of networks, such as `torus:8x8`.
#![no_main]

use ringroad_core::topology::operands;
use ringroad_core::Topology;
use ringroad_fuzz::numbers;

/// Larger numbers are refused.
const REFUSED: usize = 1 << 24;

/// Whether reading it takes long, because it describes a network of thousands of ranks.
fn is_large(spec: &str) -> bool {
    let sizes = numbers(spec).filter(|number| (1..=REFUSED).contains(number));
    let product = sizes.fold(1, |product: usize, number| product.saturating_mul(number));
    let operators = spec.matches('(').count();
    // Each step of these multiplies the ranks.
    let grows = operators > 0 || ["kautz", "bruijn"].iter().any(|family| spec.contains(family));
    operators > 4 || product > if grows { 40 } else { 300 }
}

libfuzzer_sys::fuzz_target!(|spec: &str| {
    let _ = operands(spec);
    if is_large(spec) {
        return;
    }
    let Ok(topology) = Topology::parse(spec) else { return };
    if topology.links().len() < 10_000 {
        let again = Topology::parse(&topology.spec()).unwrap();
        assert_eq!(again, topology);
        ringroad_fuzz::topology(&topology);
    }
});
