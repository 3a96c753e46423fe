//! How a waiting thread shares its core: what it learns from the duration of its yields.
//!
//! If there are more ranks than cores, or other threads use the same core, spinning makes everybody wait for a time
//! slice. The first yield that lets another thread run (a contended yield) shows that. From then on each wait spins half as long as the
//! one before, until a yield lets nobody else run. If such yields go on although there are cores for all, the thread
//! asks for another core. If ranks share cores, it asks for its own core, as if ranks were distributed evenly over
//! the cores.
//!
//! Yielding beside a busy process takes a time slice, too. The first yield that takes long shows that: if there are
//! cores for all, the thread then stops yielding for a while. Ranks that share cores go on yielding: a long yield
//! mostly means that another rank computes, and blocking instead makes the calls afterwards take 2 to 3 times as
//! long.
//!
//! Ranks that share cores all ask for short time slices. A yield costs one slice, so that a rank with longer slices
//! would come last and all others would wait for it. Each of them returns to its own core when it finds that it
//! shares one; otherwise three ranks run on one core and one on the other for seconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringroad_core::Rank;

use crate::os::lock::Mutex;
use crate::os::machine::{
    AWAY, FIRST_BACK_OFF, FIRST_STAY, HELPED, LONGEST_BACK_OFF, LONGEST_STAY, LONG_YIELD,
    MAX_CONTENDED_YIELDS, SOMEBODY, SPIN_ALONE, SPIN_LEAST, SYSTEM_CALLS,
};
use crate::os::scheduler::{self, HostLoad};

const SPIN_SHARED: Duration = Duration::ZERO;

/// What a thread has learned about its core, and how it spins.
pub(crate) struct CoreTurns {
    start: Instant,
    /// The ranks that share the cores; `None` if there are cores for all.
    load: Option<HostLoad>,
    longest_spin: Duration,
    /// In nanoseconds.
    spin: AtomicU64,
    learned: Mutex<Learned>,
}

/// What yields have shown. Times are measured from the start.
#[derive(Debug, Default)]
struct Learned {
    oversubscribed: bool,
    /// How many contended yields in a row are accepted.
    patience: u32,
    /// How many contended yields in a row there have been.
    shared: u32,
    /// When the first of them ended.
    since: Duration,
    /// When the last yield ended.
    last: Duration,
    /// A yield that takes longer than this has let another thread run.
    somebody: Duration,
    /// When the thread was last moved, how long it then stays, and until when.
    moved: Duration,
    stay: Duration,
    stay_until: Duration,
    back_off: Duration,
    no_yield_until: Duration,
}

/// What to ask the scheduler for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advice {
    Nothing,
    ShortTurns,
    AnotherCore,
    OwnCore,
}

impl CoreTurns {
    /// For rank `rank`. `load`: the ranks of this host, if they are more than its cores.
    pub fn new(rank: Rank, load: Option<HostLoad>) -> CoreTurns {
        let longest_spin = if load.is_some() { SPIN_SHARED } else { SPIN_ALONE };
        CoreTurns {
            start: Instant::now(),
            load,
            longest_spin,
            spin: AtomicU64::new(longest_spin.as_nanos() as u64),
            learned: Mutex::new(Learned::new(rank, load.is_some(), scheduler::system_call())),
        }
    }

    /// How long to spin before yielding.
    pub fn spin(&self) -> Duration {
        Duration::from_nanos(self.spin.load(Ordering::Relaxed))
    }

    /// Whether to spin at all now.
    pub fn may_spin(&self) -> bool {
        self.spin() >= SPIN_LEAST
    }

    /// Whether to yield now.
    pub fn may_yield(&self, now: Instant) -> bool {
        now - self.start >= self.learned.lock().no_yield_until
    }

    /// Yields the core, learns from how long that takes, and asks the scheduler for what follows from it.
    pub fn offer_core(&self) {
        // A yield costs one time slice: of ranks that share a core, one with longer slices than the others would come
        // last.
        if self.load.is_some() {
            scheduler::shorten();
        }
        let before = Instant::now();
        std::thread::yield_now();
        let after = Instant::now();
        let (alone, advice) = self.learned.lock().note(after - before, after - self.start);
        let spin = self.spin();
        let next = if alone { (2 * spin).max(SPIN_LEAST).min(self.longest_spin) } else { spin / 2 };
        if next != spin {
            self.spin.store(next.as_nanos() as u64, Ordering::Relaxed);
        }
        match advice {
            Advice::Nothing => {}
            Advice::ShortTurns => scheduler::shorten(),
            Advice::AnotherCore => scheduler::change_core(),
            Advice::OwnCore => self.load.into_iter().for_each(scheduler::take_core),
        }
    }
}

impl Learned {
    fn new(rank: Rank, oversubscribed: bool, system_call: Duration) -> Learned {
        Learned {
            oversubscribed,
            patience: if oversubscribed { 1 } else { MAX_CONTENDED_YIELDS * (1 + rank as u32 % 16) },
            somebody: SOMEBODY.max(SYSTEM_CALLS * system_call),
            stay: FIRST_STAY,
            back_off: FIRST_BACK_OFF,
            ..Learned::default()
        }
    }

    /// Notes a yield that took `took` and ended at `now`. Returns whether no other thread has run, and what to ask
    /// for.
    fn note(&mut self, took: Duration, now: Duration) -> (bool, Advice) {
        let alone = took <= self.somebody;
        if self.oversubscribed && now.saturating_sub(self.last + took) > AWAY {
            self.stay_until = now;
        }
        self.last = now;
        if self.shared == 0 {
            self.since = now;
        }
        self.shared = if alone { 0 } else { self.shared.saturating_add(1) };
        if took > LONG_YIELD {
            // If ranks share cores, it was mostly another rank that computes for a while, and others wait for this
            // one.
            if !self.oversubscribed {
                // Ranks that were disturbed together should not try again together: each would wait for the one
                // before.
                let spread = self.back_off / 2 + self.back_off * (now.subsec_nanos() % 1024) / 1024;
                self.no_yield_until = now + spread;
                self.back_off = (2 * self.back_off).min(LONGEST_BACK_OFF);
            }
            return (alone, Advice::ShortTurns);
        }
        self.back_off = FIRST_BACK_OFF;
        if self.shared < self.patience {
            return (alone, Advice::Nothing);
        }
        if !self.oversubscribed && self.since > self.moved + HELPED {
            (self.stay, self.stay_until) = (FIRST_STAY, now);
        }
        if now < self.stay_until {
            return (alone, Advice::Nothing);
        }
        self.shared = 0;
        if self.oversubscribed {
            self.stay_until = now + FIRST_STAY;
            return (alone, Advice::OwnCore);
        }
        (self.moved, self.stay_until) = (now, now + self.stay);
        self.stay = (2 * self.stay).min(LONGEST_STAY);
        (alone, Advice::AnotherCore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_nanos(400);
    const SWITCH: Duration = Duration::from_micros(3);

    fn learned(rank: Rank) -> Learned {
        Learned::new(rank, false, QUICK / 4)
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// How many contended yields in a row, one each microsecond from `start` on, it takes until another core is asked
    /// for.
    fn switches(learned: &mut Learned, start: Duration) -> u64 {
        let asks = |n: &u64| learned.note(SWITCH, start + Duration::from_micros(*n)).1 == Advice::AnotherCore;
        (1..).find(asks).unwrap()
    }

    #[test]
    fn ranks_on_one_core_part_one_after_the_other() {
        let mut ranks = [learned(0), learned(1)];
        assert_eq!(switches(&mut ranks[0], at(0)), 8);
        assert_eq!(switches(&mut ranks[1], at(0)), 16);
    }

    #[test]
    fn who_is_alone_stays() {
        let mut learned = learned(0);
        for round in 0..1000 {
            let took = if round % 8 == 7 { QUICK } else { SWITCH };
            assert_ne!(learned.note(took, at(round)).1, Advice::AnotherCore);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "millions of yields, and no unsafe code")]
    fn moving_in_vain_becomes_rare() {
        let mut learned = learned(0);
        let mut now = at(1);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            now += Duration::from_micros(switches(&mut learned, now));
            pauses.push((learned.stay_until - now).as_millis());
        }
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]);
    }

    #[test]
    fn moving_that_helps_may_happen_again_soon() {
        let mut learned = learned(0);
        for round in 1..100 {
            assert_eq!(switches(&mut learned, at(10 * round)), u64::from(MAX_CONTENDED_YIELDS));
            assert_eq!(learned.note(QUICK, at(10 * round + 5)), (true, Advice::Nothing));
        }
        // Moving did not help: the core was uncontended only for a moment.
        let now = at(1000);
        switches(&mut learned, now);
        learned.note(QUICK, now + HELPED / 2);
        assert!(switches(&mut learned, now + HELPED / 2) > 10_000);
    }

    #[test]
    fn oversubscribed_everybody_goes_to_a_core_of_its_own_again_and_again() {
        let mut learned = Learned::new(0, true, QUICK / 4);
        let pause = AWAY / 2;
        let advice: Vec<_> = (1..=1000).map(|round| learned.note(SWITCH, round * pause).1).collect();
        assert!(!advice.contains(&Advice::AnotherCore));
        let asked: Vec<_> = (0..1000).filter(|round| advice[*round as usize] == Advice::OwnCore).collect();
        assert_eq!(asked[0], 0);
        let stays = asked.windows(2).map(|pair| (pair[1] - pair[0]) * pause);
        assert!(stays.into_iter().all(|stay| FIRST_STAY <= stay && stay < FIRST_STAY + pause));
    }

    #[test]
    fn slow_system_calls_are_nobody_else() {
        let mut learned = Learned::new(0, false, 2 * QUICK);
        for round in 0..1000 {
            assert_eq!(learned.note(16 * QUICK, at(round)), (true, Advice::Nothing));
        }
    }

    #[test]
    fn beside_a_busy_process_nobody_yields_for_a_while() {
        let mut learned = learned(0);
        let mut now = at(10);
        for round in 0..8 {
            assert_eq!(learned.note(at(3), now).1, Advice::ShortTurns);
            let pause = learned.no_yield_until - now;
            let longest = (at(5) * (1 << round)).min(at(160)) * 3 / 2;
            assert!(longest / 3 <= pause && pause <= longest, "{pause:?} after {round} long yields");
            now = learned.no_yield_until;
        }
        assert_eq!(learned.note(QUICK, now).1, Advice::Nothing);
        assert_eq!(learned.back_off, FIRST_BACK_OFF);
    }

    #[test]
    fn an_oversubscribed_host_goes_on_yielding() {
        let mut learned = Learned::new(0, true, QUICK / 4);
        assert_eq!(learned.note(at(3), at(10)).1, Advice::ShortTurns);
        assert_eq!(learned.no_yield_until, Duration::ZERO);
    }

    #[test]
    fn who_was_away_goes_to_its_own_core_at_once() {
        let mut learned = Learned::new(0, true, QUICK / 4);
        let mut advice = |microseconds| learned.note(SWITCH, Duration::from_micros(microseconds)).1;
        // Most come less than 300 microseconds after the one before, except for the one at 2,000.
        let times = [1000, 1100, 1300, 1500, 2000, 2100];
        let asked = times.map(|time| advice(time) == Advice::OwnCore);
        assert_eq!(asked, [true, false, false, false, true, false]);
    }
}
