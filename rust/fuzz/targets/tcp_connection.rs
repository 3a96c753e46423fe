//! What comes by a connection over tcp: from strangers, and from ranks of the group.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringroad_runtime::fuzzing::connection(bytes));
