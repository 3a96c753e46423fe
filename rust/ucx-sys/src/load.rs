//! Finds and opens one UCX for the whole process.

use crate::bindings::{ucs_status_t, Ucp};
use crate::choice::FoundLibraries;
use crate::environment;
use libc::{c_char, c_int, c_void};
use libloading::os::unix::Library;
use std::ffi::{CStr, OsStr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// The oldest UCX these bindings are tested with.
pub const MINIMUM_VERSION: (u32, u32) = (1, 13);

pub(crate) const SONAME: &str = "libucp.so.0";
const UCS_SONAME: &str = "libucs.so.0";

// NOW, so that an incomplete UCX fails here and not in the middle of a collective. LOCAL, because UCX's plug-ins name
// the libraries they need and find them without it, and the process may hold other packages' copies of its symbols.
// NODELETE, because UCX starts threads and registers exit handlers.
const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;

/// How to look for UCX, and what to set before opening it.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The library that the user has named (`RINGROAD_UCX_LIBRARY`). If it cannot be opened, that is an error.
    pub explicit: Option<PathBuf>,
    /// The `libucp.so.0` of an installed `libucx` wheel. It is preferred to the system's if it is newer, unless
    /// `LD_LIBRARY_PATH` names another one or the host has RDMA devices.
    pub wheel: Option<PathBuf>,
    /// Whether to set those variables of [`crate::ENVIRONMENT`] that are unset.
    pub environment: bool,
    /// The value for `UCX_TLS` if that is unset, whatever `environment` is.
    pub tls: Option<String>,
    /// More variables to set if they are unset, whatever `environment` is.
    pub variables: Vec<(&'static str, String)>,
}

/// How the library was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Something else in the process had opened it.
    AlreadyLoaded,
    /// The path that the user has named.
    Explicit,
    /// The dynamic loader's search path.
    System,
    /// The `libucx` wheel.
    Wheel,
}

/// An open UCX. It is never closed.
pub struct Ucx {
    /// The functions of libucp.
    pub ucp: Ucp,
    /// `ucs_status_string` of the libucs that belongs to `ucp`.
    pub status_string: unsafe extern "C" fn(ucs_status_t) -> *const c_char,
    /// The file that libucp was read from.
    pub path: PathBuf,
    /// Major, minor, release. Ranks with different versions cannot communicate.
    pub version: (u32, u32, u32),
    /// The version as UCX prints it.
    pub version_string: String,
    /// How it was found.
    pub origin: Origin,
    /// Why this one, if there was a choice.
    pub reason: Option<String>,
}

impl std::fmt::Debug for Ucx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UCX {} ({:?}, {})", self.version_string, self.origin, self.path.display())
    }
}

/// Why UCX cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// No candidate could be opened.
    #[error(
        "no UCX found; pip install libucx-cu12 or apt-get install libucx0, \
         or set RINGROAD_UCX_LIBRARY=/path/to/libucp.so.0\n  tried: {}",
        tried.join("\n  tried: ")
    )]
    NotFound {
        /// One line for each candidate: which one, and why it failed.
        tried: Vec<String>,
    },
    /// The user's library could not be opened.
    #[error(
        "RINGROAD_UCX_LIBRARY={} cannot be loaded: {reason}; \
         correct the path or unset the variable to search for UCX",
        path.display()
    )]
    Explicit {
        /// The path that the user has named.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// The user's library is not the one that the process already uses.
    #[error(
        "RINGROAD_UCX_LIBRARY={} was asked for, but this process has already loaded {}; \
         unset the variable to use that one, or create the first Communicator before the other user of UCX",
        explicit.display(),
        loaded.display()
    )]
    Conflict {
        /// The path that the user has named.
        explicit: PathBuf,
        /// The path in use.
        loaded: PathBuf,
    },
    /// libucp and libucs come from different installations, which sooner or later crashes.
    #[error(
        "two installations of UCX are mixed: libucp from {} but libucs from {}; \
         check LD_LIBRARY_PATH and LD_PRELOAD and other packages that load UCX, \
         or set RINGROAD_UCX_LIBRARY=/path/to/libucp.so.0 of the one already in use",
        ucp.display(),
        ucs.display()
    )]
    Mixture {
        /// The file of libucp, open or to be opened.
        ucp: PathBuf,
        /// The file of libucs.
        ucs: PathBuf,
    },
    /// A library that is not UCX, or one that lacks functions.
    #[error("{} is not a usable UCX: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// Older than [`MINIMUM_VERSION`].
    #[error(
        "UCX {found} at {} is too old, {}.{} or newer is needed; \
         set RINGROAD_UCX_LIBRARY to a newer libucp.so.0 (pip install libucx-cu12 brings one)",
        path.display(), MINIMUM_VERSION.0, MINIMUM_VERSION.1
    )]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
    },
}

/// Opens UCX. After the first success every call returns the same one, whatever its options.
///
/// With `environment`, `tls` or `variables` it adds to the environment of the process. Other threads may read the
/// environment meanwhile, but must not change it.
pub fn load(options: &LoadOptions) -> Result<&'static Ucx, LoadError> {
    static UCX: OnceLock<Ucx> = OnceLock::new();
    static LOADING: Mutex<()> = Mutex::new(());
    if let Some(ucx) = UCX.get() {
        return Ok(ucx);
    }
    // A panic of another loader leaves nothing half done: the cell is filled in one step.
    let _guard = LOADING.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(ucx) = UCX.get() {
        return Ok(ucx);
    }
    environment::apply(options.environment, options.tls.as_deref(), &options.variables);
    let (library, origin, reason) = find(options)?;
    let ucx = Ucx { reason, ..verify(library, origin)? };
    if let (Some(explicit), Origin::AlreadyLoaded) = (&options.explicit, origin) {
        // Compare directories, because installations have the same library under several names. A bare soname fits
        // any directory.
        let named = explicit.parent() != Some(Path::new(""));
        if named && directory(explicit) != directory(&ucx.path) {
            return Err(LoadError::Conflict { explicit: explicit.clone(), loaded: ucx.path });
        }
    }
    Ok(UCX.get_or_init(|| ucx))
}

fn find(options: &LoadOptions) -> Result<(Library, Origin, Option<String>), LoadError> {
    // By soname first: opening a second copy by its path would use the first copy's libucs.
    if let Ok(library) = open(SONAME.as_ref(), FLAGS | libc::RTLD_NOLOAD) {
        return Ok((library, Origin::AlreadyLoaded, None));
    }
    if let Some(path) = &options.explicit {
        refuse_foreign_ucs(path)?;
        return match open(path.as_os_str(), FLAGS) {
            Ok(library) => Ok((library, Origin::Explicit, None)),
            Err(reason) => Err(LoadError::Explicit { path: path.clone(), reason }),
        };
    }
    let (mut tried, mut mixture) = (Vec::new(), None);
    let preferred = options.wheel.as_deref().map(|wheel| FoundLibraries::detect(wheel).prefer());
    let wheel_first = preferred.as_ref().is_some_and(|(origin, _)| *origin == Origin::Wheel);
    let order = if wheel_first { [Origin::Wheel, Origin::System] } else { [Origin::System, Origin::Wheel] };
    for origin in order {
        let opened = match (origin, &options.wheel) {
            (Origin::System, _) => open(SONAME.as_ref(), FLAGS).map_err(|reason| format!("system: {reason}")),
            (_, None) => Err("wheel: libucx is not installed".to_owned()),
            (_, Some(path)) => match refuse_foreign_ucs(path) {
                Ok(()) => open(path.as_os_str(), FLAGS).map_err(|reason| format!("wheel: {reason}")),
                Err(error) => {
                    let text = format!("wheel: {error}");
                    mixture = Some(error);
                    Err(text)
                }
            },
        };
        match opened {
            Ok(library) => {
                let first = preferred.filter(|(preferred, _)| *preferred == origin);
                return Ok((library, origin, first.map(|(_, reason)| reason)));
            }
            Err(text) => tried.push(text),
        }
    }
    Err(mixture.unwrap_or(LoadError::NotFound { tried }))
}

/// A libucs that is already loaded would be bound to the libucp that is opened now, whose constructors run at once.
fn refuse_foreign_ucs(ucp: &Path) -> Result<(), LoadError> {
    let Ok(library) = open(UCS_SONAME.as_ref(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) else {
        return Ok(());
    };
    match symbol(&library, c"ucs_status_string").and_then(file_of) {
        Some(ucs) if ucp.exists() && directory(&ucs) != directory(ucp) => {
            Err(LoadError::Mixture { ucp: ucp.to_owned(), ucs })
        }
        _ => Ok(()),
    }
}

fn verify(library: Library, origin: Origin) -> Result<Ucx, LoadError> {
    let unusable =
        |path: &Path, reason: &str| LoadError::Unusable { path: path.to_owned(), reason: reason.to_owned() };
    let ucp_symbol = symbol(&library, c"ucp_get_version");
    let Some(path) = ucp_symbol.and_then(file_of) else {
        return Err(unusable(SONAME.as_ref(), "it has no ucp_get_version"));
    };
    // Found through libucp's handle, hence in the libucs that libucp was loaded with.
    let Some(status_symbol) = symbol(&library, c"ucs_status_string") else {
        return Err(unusable(&path, "it has no ucs_status_string"));
    };
    // libucp itself calls the first definition in the process, if there is one before its own.
    let global = symbol(&Library::this(), c"ucs_status_string").unwrap_or(status_symbol);
    for address in [status_symbol, global] {
        let ucs = file_of(address).unwrap_or_default();
        if directory(&ucs) != directory(&path) {
            return Err(LoadError::Mixture { ucp: path, ucs });
        }
    }
    // SAFETY: libucp's functions have the declared types in every version since 1.13. An older version is refused
    // below, before anything but its version is read.
    let ucp = unsafe { Ucp::from_library(library) }.map_err(|error| unusable(&path, &error.to_string()))?;
    // SAFETY: the address is that of ucs_status_string, whose type never changed; the library is never unloaded.
    let status_string = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(ucs_status_t) -> *const c_char>(status_symbol)
    };
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: three valid pointers, as the function requires.
    unsafe { (ucp.ucp_get_version)(&mut major, &mut minor, &mut release) };
    // SAFETY: the function returns a static string.
    let version_string =
        unsafe { CStr::from_ptr((ucp.ucp_get_version_string)()) }.to_string_lossy().into_owned();
    if (major, minor) < MINIMUM_VERSION {
        return Err(LoadError::TooOld { path, found: version_string });
    }
    Ok(Ucx {
        ucp,
        status_string,
        path,
        version: (major, minor, release),
        version_string,
        origin,
        reason: None,
    })
}

fn open(name: &OsStr, flags: c_int) -> Result<Library, String> {
    // SAFETY: UCX's constructors are made to run at dlopen, from any thread.
    unsafe { Library::open(Some(name), flags) }.map_err(|error| error.to_string())
}

fn symbol(library: &Library, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: only the address is taken; nothing at that address is read or called here.
    let symbol = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) }.ok()?;
    Some(symbol.into_raw())
}

/// The file from which the code at `address` was read.
fn file_of(address: *mut c_void) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: all zero is a valid Dl_info (null pointers).
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr accepts any address and fills `info` when it returns non-zero.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dli_fname is a string owned by the loader, valid while the library is loaded; it is copied at once.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The directory of a library, with links resolved (Debian has one directory both as /lib and as /usr/lib).
fn directory(path: &Path) -> PathBuf {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.parent().map(Path::to_owned).unwrap_or_default()
}
