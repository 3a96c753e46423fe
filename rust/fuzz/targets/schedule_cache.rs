//! Files of schedules that were made for a graph.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringroad_runtime::fuzzing::cache(bytes));
