//! Messages in wire formats. Any bytes of a peer are decoded as the slow twin decodes them, and what they are decoded to is
//! encoded again without loss: as the same numbers, with NaN where NaN was.
#![no_main]

use ringroad_core::Wire;
use ringroad_runtime::fuzzing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [format, elements, message @ ..] = data else { return };
    let (turn, format) = (usize::from(*format) / Wire::ALL.len(), usize::from(*format) % Wire::ALL.len());
    let (wire, dtype) = (Wire::ALL[format], fuzzing::DECODED[turn % fuzzing::DECODED.len()]);
    let elements = usize::from(*elements) * 3;
    let mut message = message.to_vec();
    message.resize(wire.encoded(elements), 0);
    fuzzing::decode(wire, dtype, &message, elements);
});
