//! Files of rules for NCCL's tuner plugin.
#![no_main]

use ringroad_core::cost::{read_rules, write_rules};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(rules) = read_rules(text) {
        assert_eq!(read_rules(&write_rules(&rules)).unwrap(), rules);
    }
});
