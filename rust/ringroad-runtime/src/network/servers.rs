//! Threads that serve other hosts while a network is explored.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A thread for each address family, until this is dropped.
#[derive(Default)]
pub(super) struct Servers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// The ports for IPv4 and IPv6.
    pub ports: [Option<u16>; 2],
}

impl Servers {
    /// `open` opens a port for IPv6 or IPv4, and returns it with what its thread does until it shall stop. It is no error if
    /// only one address family can be used.
    pub fn begin<S: FnOnce(&AtomicBool) + Send + 'static>(
        name: &str,
        open: impl Fn(bool) -> io::Result<(u16, S)>,
    ) -> io::Result<Servers> {
        let mut made = Servers::default();
        let mut failure = None;
        for is_ipv6 in [false, true] {
            match open(is_ipv6) {
                Ok((port, serve)) => {
                    made.ports[usize::from(is_ipv6)] = Some(port);
                    let stop = made.stop.clone();
                    let thread = Builder::new().name(name.to_owned());
                    made.threads.push(thread.spawn(move || serve(&stop))?);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) if made.threads.is_empty() => Err(error),
            _ => Ok(made),
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
