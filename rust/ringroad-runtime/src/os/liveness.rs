//! Finds out whether the processes of peers on this host still exist.
//!
//! Transports notice a death by a broken connection or a keep-alive. Shared memory does not have these everywhere,
//! and a process that was not waited for (a zombie) can satisfy a keep-alive. The kernel knows better.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ringroad_core::Rank;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{pidfd_open, test_kill_process, Pid, PidfdFlags};

use super::messages::warn_once;
use crate::os::fork::Global;

/// How often processes are looked up that cannot be watched by a descriptor.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The processes that any communicator of this process watches. One descriptor of each serves all communicators.
static WATCHED: Global<HashMap<Pid, Weak<OwnedFd>>> = Global::new();

/// A descriptor of a process that has not ended, or has only just ended.
fn watch(pid: Pid) -> Result<Arc<OwnedFd>, Errno> {
    let mut all = WATCHED.lock();
    // A number is not reused before its process has ended.
    if let Some(known) = all.get(&pid).and_then(Weak::upgrade).filter(|known| !have_ended(&[known])[0]) {
        return Ok(known);
    }
    let new = Arc::new(pidfd_open(pid, PidfdFlags::empty())?);
    all.retain(|_, known| known.strong_count() > 0);
    all.insert(pid, Arc::downgrade(&new));
    Ok(new)
}

/// For each of these processes, whether it has ended.
fn have_ended(processes: &[&Arc<OwnedFd>]) -> Vec<bool> {
    let mut fds: Vec<PollFd<'_>> = processes.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let any = matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..));
    fds.iter().map(|fd| any && !fd.revents().is_empty()).collect()
}

/// What a rank says of its process, by which others of its host find it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessInfo<'a> {
    pub rank: Rank,
    pub pid: u32,
    /// Where that number means something: names the kernel and the namespaces; empty where that is not known.
    pub pid_space: &'a str,
    /// When it started, in clock ticks since the machine did.
    pub started: Option<u64>,
}

/// Watches processes by descriptors, or by looking them up if the kernel gives no descriptor.
#[derive(Default)]
pub(crate) struct Liveness {
    watched: Vec<(Rank, Arc<OwnedFd>)>,
    looked_up: Vec<(Rank, Process)>,
    /// When they were last looked up.
    looked: Option<Instant>,
}

impl Liveness {
    /// Watches the processes of ranks. `own`: this process.
    pub fn new<'a>(own: ProcessInfo<'_>, ranks: impl Iterator<Item = ProcessInfo<'a>>) -> Liveness {
        let mut liveness = Liveness::default();
        ranks.for_each(|other| liveness.watch(own, other));
        liveness
    }

    /// Also watches another rank's process, if this process can see it.
    pub fn watch(&mut self, own: ProcessInfo<'_>, other: ProcessInfo<'_>) {
        self.watch_by(own, other, watch);
    }

    /// Like [`Liveness::watch`], with this way to get the descriptor of a process.
    fn watch_by(
        &mut self,
        own: ProcessInfo<'_>,
        other: ProcessInfo<'_>,
        open: impl Fn(Pid) -> Result<Arc<OwnedFd>, Errno>,
    ) {
        let Some(process) = Process::for_rank(own, other) else { return };
        match open(process.pid) {
            // The number may have been reused before.
            Ok(descriptor) if process.start.is_none() || !process.has_ended() => {
                self.watched.push((other.rank, descriptor));
            }
            Ok(_) | Err(Errno::SRCH) => self.looked_up.push((other.rank, process)),
            Err(error) => {
                let text = format!("pidfd_open: {error}: the ends of other ranks are noticed a little later");
                warn_once("pidfd_open", &text);
                self.looked_up.push((other.rank, process));
            }
        }
    }

    /// The ranks whose processes have ended since the last call.
    pub fn ended(&mut self) -> Vec<Rank> {
        let mut ended = self.ended_by_descriptor();
        if !self.looked_up.is_empty() && self.looked.is_none_or(|looked| looked.elapsed() >= POLL_INTERVAL) {
            self.looked = Some(Instant::now());
            let gone = self.looked_up.extract_if(.., |(_, process)| process.has_ended());
            ended.extend(gone.map(|(rank, _)| rank));
        }
        ended
    }

    fn ended_by_descriptor(&mut self) -> Vec<Rank> {
        if self.watched.is_empty() {
            return Vec::new();
        }
        let ended = have_ended(&self.watched.iter().map(|(_, fd)| fd).collect::<Vec<_>>());
        if !ended.contains(&true) {
            return Vec::new();
        }
        let mut ranks = Vec::new();
        let mut index = 0;
        self.watched.retain(|(rank, _)| {
            if ended[index] {
                ranks.push(*rank);
            }
            index += 1;
            !ended[index - 1]
        });
        ranks
    }
}

/// Whether this process's namespace has no such process that started then, or only a zombie.
pub(crate) fn is_gone(pid: u32, start: Option<u64>) -> bool {
    self::pid(pid).is_none_or(|pid| Process { pid, start }.has_ended())
}

/// A process, identified by its number, which may be reused, and by its start time.
struct Process {
    pid: Pid,
    /// In clock ticks since the machine started; `None` if it could not be read.
    start: Option<u64>,
}

impl Process {
    /// The process of a rank, if this process can see it and it is another one.
    fn for_rank(own: ProcessInfo<'_>, other: ProcessInfo<'_>) -> Option<Process> {
        let is_seen = other.pid != own.pid && !own.pid_space.is_empty() && other.pid_space == own.pid_space;
        let pid = pid(other.pid).filter(|_| is_seen)?;
        Some(Process { pid, start: other.started.or_else(|| started(other.pid)) })
    }

    fn has_ended(&self) -> bool {
        match Stat::read(self.pid) {
            Ok(stat) => stat.is_dead() || self.start.is_some_and(|start| stat.start != start),
            // The file may be missing for lack of descriptors, or because other users' processes are hidden.
            Err(_) => test_kill_process(self.pid) == Err(Errno::SRCH),
        }
    }
}

/// Whether the process of a rank has ended, as far as this process can see.
pub(crate) fn has_ended(own: ProcessInfo<'_>, other: ProcessInfo<'_>) -> bool {
    Process::for_rank(own, other).is_some_and(|process| process.has_ended())
}

/// When a process started, in clock ticks since the machine started; `None` if it does not exist or may not be read.
pub(crate) fn started(pid: u32) -> Option<u64> {
    Stat::read(self::pid(pid)?).ok().map(|stat| stat.start)
}

/// What the kernel says of a process, as a letter of ps(1): `T` if it is stopped, `X` if only its number is left. `None` if it
/// does not exist or may not be read.
pub(crate) fn state(pid: u32) -> Option<char> {
    Stat::read(self::pid(pid)?).ok().map(|stat| if stat.is_dead() { 'X' } else { stat.state })
}

/// The state of another rank's process, if this process can see it; `X` if it has ended.
pub(crate) fn state_of(own: ProcessInfo<'_>, other: ProcessInfo<'_>) -> Option<char> {
    let process = Process::for_rank(own, other)?;
    if process.has_ended() {
        Some('X')
    } else {
        state(other.pid)
    }
}

/// The number comes from other ranks, so it may be anything.
fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// What `/proc` says about a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    threads: u64,
    start: u64,
}

impl Stat {
    fn read(pid: Pid) -> io::Result<Stat> {
        // Not `/proc/PID/stat`: qemu makes that up for the process itself. The first thread's file is the kernel's.
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat"))?;
        Stat::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The process's name is in brackets and may contain anything; the fields after it are counted from 3 on (see
    /// proc(5)).
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse().ok();
        Some(Stat { state: fields.first()?.chars().next()?, threads: number(20)?, start: number(22)? })
    }

    /// Whether the process no longer runs, even if its parent has not waited for it.
    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn process(rank: Rank, pid: u32) -> ProcessInfo<'static> {
        ProcessInfo { rank, pid, pid_space: "here", started: None }
    }

    fn child() -> Child {
        Command::new("sleep").arg("100").spawn().unwrap()
    }

    /// Waits, but not for ever, until the kernel has ended a process that was killed.
    fn ended(liveness: &mut Liveness) -> Vec<Rank> {
        let start = Instant::now();
        loop {
            let ended = liveness.ended();
            if !ended.is_empty() || start.elapsed() > Duration::from_secs(10) {
                return ended;
            }
            std::thread::yield_now();
        }
    }

    /// Deaths are noticed exactly once, whether or not anybody has waited for the process.
    #[test]
    fn deaths_are_noticed_without_descriptors_too() {
        let refuse = |error| move |_| Err(error);
        let own = process(0, std::process::id());
        for error in [None, Some(Errno::MFILE), Some(Errno::NOSYS), Some(Errno::PERM)] {
            let mut children = [child(), child(), child()];
            let others = children.iter().zip(1..).map(|(child, rank)| process(rank, child.id()));
            let ranks = [own].into_iter().chain(others);
            let mut liveness = match error {
                None => Liveness::new(own, ranks),
                Some(error) => {
                    let mut liveness = Liveness::default();
                    ranks.for_each(|other| liveness.watch_by(own, other, refuse(error)));
                    liveness
                }
            };
            assert!(liveness.ended().is_empty(), "{error:?}");
            children[1].kill().unwrap();
            assert_eq!(ended(&mut liveness), [2], "{error:?}: nobody has waited for it");
            children[2].kill().unwrap();
            children[2].wait().unwrap();
            assert_eq!(ended(&mut liveness), [3], "{error:?}: its parent has waited for it");
            children[1].wait().unwrap();
            liveness.looked = None;
            assert!(liveness.ended().is_empty(), "{error:?}: twice");
            children[0].kill().unwrap();
            children[0].wait().unwrap();
        }
    }

    /// All communicators of a process share the descriptors of other processes, as long as these have not ended.
    #[test]
    fn one_descriptor_serves_all() {
        let mut child = child();
        let ranks = [process(0, std::process::id()), process(1, child.id())];
        let watch = || Liveness::new(ranks[0], ranks.into_iter());
        let [mut first, mut second] = [watch(), watch()];
        let descriptor = |liveness: &Liveness| liveness.watched[0].1.clone();
        let old = descriptor(&first);
        assert!(Arc::ptr_eq(&old, &descriptor(&second)));
        child.kill().unwrap();
        assert_eq!([ended(&mut first), ended(&mut second)], [[1], [1]]);
        // The process was not waited for, so its number is still its own.
        let mut third = watch();
        assert!(third.watched.iter().all(|(_, fd)| !Arc::ptr_eq(&old, fd)));
        assert_eq!(ended(&mut third), [1]);
        child.wait().unwrap();
    }

    /// Another process with the same number.
    #[test]
    fn numbers_that_are_used_again_are_told_apart() {
        let pid = Pid::from_raw(std::process::id() as i32).unwrap();
        let start = started(std::process::id());
        assert!(!Process { pid, start }.has_ended());
        assert!(Process { pid, start: start.map(|start| start - 1) }.has_ended());
    }

    #[test]
    fn names_may_hold_anything() {
        let text = "17 (a) Z (1 2 3) S 1 17 17 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 5 0 777 0 0";
        assert_eq!(Stat::parse(text), Some(Stat { state: 'S', threads: 5, start: 777 }));
        for text in ["", "17 (a", "17 (a) S", "17 (a) S 1 17"] {
            assert_eq!(Stat::parse(text), None, "{text:?}");
        }
    }
}
