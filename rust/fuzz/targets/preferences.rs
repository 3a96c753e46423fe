//! Lists of algorithms, as `RINGROAD_ALGO` has them.
#![no_main]

use ringroad_core::algorithms::find;
use ringroad_core::selection::Algorithms;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = Algorithms::parse(text);
    if let Ok(member) = find(text) {
        assert_eq!(find(&member.name()).unwrap(), member);
    }
});
