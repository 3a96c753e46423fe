//! Schedules in ringroad's own format.
#![no_main]

use ringroad_core::interchange;

libfuzzer_sys::fuzz_target!(|content: &[u8]| {
    if let Ok(schedule) = interchange::read(content) {
        ringroad_fuzz::schedule(&schedule);
    }
});
