//! Networks as JSON, with their links and routes.
#![no_main]

use ringroad_core::Topology;
use ringroad_fuzz::numbers;

/// As much as a small network has; a spec may be of a large one.
fn is_large(text: &str) -> bool {
    let spec = text.split("\"spec\"").nth(1).unwrap_or_default().chars().skip_while(|c| *c != '"');
    let spec: String = spec.skip(1).take_while(|c| *c != '"').collect();
    numbers(&spec).filter(|number| *number > 0).fold(1, usize::saturating_mul) > 40
        || spec.matches('(').count() > 3
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    if is_large(text) {
        return;
    }
    if let Ok(topology) = serde_json::from_str::<Topology>(text) {
        ringroad_fuzz::topology(&topology);
    }
});
