//! Which versions of the kernels this machine can run.

use std::fmt;

/// A set of instructions that the kernels are compiled for and that this machine has.
///
/// Only detection makes a value of this type, so having one proves that the code may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionSet(pub(super) KernelVersion);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelVersion {
    /// What the compilation target has anyway: SSE2 on x86-64, NEON on aarch64.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// The fastest set of this machine. Cheap enough for every call: the standard library caches what it detects.
    #[inline]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            return Self(KernelVersion::Avx512);
        } else if has_avx2() {
            return Self(KernelVersion::Avx2);
        }
        Self(KernelVersion::Portable)
    }

    /// All sets of this machine, the slowest first, for tests and benchmarks that compare them.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "one version only, off x86-64")]
        let mut sets = vec![Self(KernelVersion::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(has_avx2().then_some(Self(KernelVersion::Avx2)));
            sets.extend(has_avx512().then_some(Self(KernelVersion::Avx512)));
        }
        sets
    }

    /// Lower-case name.
    pub fn name(self) -> &'static str {
        match self.0 {
            KernelVersion::Portable if cfg!(target_arch = "aarch64") => "neon",
            KernelVersion::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            KernelVersion::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            KernelVersion::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}
