//! Profiles, which `ringroad tune` has written.
#![no_main]

use ringroad_core::Collective;
use ringroad_runtime::choice::profile::Profile;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(profile) = Profile::from_json(text) {
        assert_eq!(Profile::from_json(&profile.to_json()).unwrap(), profile);
        let _ = (profile.place.file_name(), profile.place.to_string());
        if profile.place.topology.ranks() <= 4 && profile.place.topology.links().len() < 50 {
            let _ = profile.switch_points(Collective::Allreduce, true);
            let _ = profile.explain(Collective::Broadcast { root: 0 }, 1 << 20, false);
        }
    }
});
