//! Sealed values in the store: only what a rank has sealed is accepted.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringroad_runtime::fuzzing::seals(bytes));
