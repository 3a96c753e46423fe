//! The runtime's only error type. A caller can tell its variants apart; the texts say who, what and where.

use ringroad_core::Rank;

/// What went wrong with a call, or with the communicator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument is invalid. Nothing was sent; the communicator is as before.
    #[error("{0}")]
    Argument(String),
    /// A type is not supported, or not by this reduction. The communicator is as before.
    #[error("{0}")]
    Type(String),
    /// A deadline passed.
    #[error("{0}")]
    Timeout(String),
    /// Another rank died or left.
    #[error("{message}")]
    Peer {
        /// The rank.
        rank: Rank,
        /// The whole text.
        message: String,
    },
    /// Ranks made different calls.
    #[error("{0}")]
    Mismatch(String),
    /// This rank or another has given up the communicator, which cannot be used any more.
    #[error("{0}")]
    Aborted(String),
    /// There is not enough memory; the text says how much was needed. The process can go on.
    #[error("{0}")]
    Memory(String),
    /// The transport cannot be used.
    #[error("{0}")]
    Transport(String),
    /// The store failed, or ranks did not come.
    #[error("{0}")]
    Store(String),
    /// A setting has an invalid value.
    #[error("{0}")]
    Config(String),
    /// A schedule or algorithm cannot be used here.
    #[error("{0}")]
    Schedule(String),
    /// A topology is invalid.
    #[error("{0}")]
    Topology(String),
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The text of a system error: what failed, why, and what to raise or permit, if that is known.
pub(crate) fn refused(what: &str, error: &std::io::Error) -> String {
    let advice = advice(error).map_or_else(String::new, |advice| format!("; {advice}"));
    format!("{what}: {error}{advice}")
}

/// Whether this process lacks descriptors, ports or memory.
pub(crate) fn is_shortage(error: &std::io::Error) -> bool {
    let codes = [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// What to raise or permit after such a system error.
pub(crate) fn advice(error: &std::io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE => Some("raise the limit of open files (ulimit -n)"),
        libc::ENFILE => Some("raise the system's limit of open files (sysctl fs.file-max)"),
        libc::ENOMEM => Some("raise the limit of address space (ulimit -v), or free memory"),
        libc::EPERM | libc::EACCES | libc::ENOSYS => Some("have the system or its sandbox permit that"),
        _ => None,
    }
}

/// Rooms say by this what their own errors are to callers.
macro_rules! convert {
    ($($from:path => $variant:ident),* $(,)?) => {
        $(impl From<$from> for $crate::error::Error {
            fn from(error: $from) -> Self {
                $crate::error::Error::$variant(error.to_string())
            }
        })*
    };
}

pub(crate) use convert;

convert! {
    ringroad_core::algorithms::Unavailable => Schedule,
    ringroad_core::algorithms::UnknownAlgorithm => Schedule,
    ringroad_core::schedule::VerifyError => Schedule,
    ringroad_core::plan::LowerError => Schedule,
    ringroad_core::cost::CostError => Schedule,
    ringroad_core::cost::TableError => Schedule,
    ringroad_core::topology::TopologyError => Topology,
    ringroad_core::collective::UnknownCollective => Argument,
    ringroad_core::wire::UnknownWire => Argument,
}
