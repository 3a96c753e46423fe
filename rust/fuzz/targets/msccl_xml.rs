//! Schedules in the XML of MSCCL. What is read can be written, even if it is wrong.
#![no_main]

use ringroad_core::interchange::msccl;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(schedule) = msccl::read(text) {
        let written = msccl::write(&schedule).unwrap();
        let again = msccl::read(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
        if schedule.ranks <= 16 && schedule.verify().is_ok() {
            assert_eq!(again, schedule, "{written}");
        }
        ringroad_fuzz::schedule(&schedule);
    }
});
