//! What ranks publish when they meet, after its seal has been checked. The first letter says what it is.
#![no_main]

use ringroad_runtime::fuzzing::VALUES;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((letter, content)) = bytes.split_first() else { return };
    if let Some((_, read)) = VALUES.iter().find(|(known, _)| *known == char::from(*letter)) {
        read(content);
    }
});
