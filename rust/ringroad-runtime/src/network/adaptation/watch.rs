//! Notices that calls take longer, or shorter, than they used to.
//!
//! Every call has a prediction. The ratio of its time to that is mostly not 1, because no model is exact, but it stays about
//! the same for calls of one kind and size. A late rank makes single calls slow; so only calls in a row count, and the least
//! of their ratios. The first calls say what is usual, and later ones move that slowly.
//!
//! All times of calls come from the caller, who reads the clock.

use std::time::{Duration, Instant};

use ringroad_core::Collective;

use crate::calls::call::Prediction;

/// How much more or less of its prediction a call takes than usual before it counts as slow or fast.
const SLOW: f32 = 1.5;
const FAST: f32 = 0.67;
/// How many such calls in a row are a suspicion, and how long they take together if they are slow. Fewer are enough if they
/// take longer.
const CALLS: u32 = 5;
const LONG: Duration = Duration::from_millis(250);
const FEW: u32 = 3;
const LONGER: Duration = Duration::from_millis(700);
/// How many calls say what is usual, after the first, which often waits for connections.
const LEARNED: u32 = 5;
const SKIPPED: u32 = 1;
/// The part by which a usual call moves what is usual.
const PACE: f32 = 1.0 / 32.0;
/// How many times its prediction a call takes before something must be wrong with the prediction, and how much longer. Calls
/// of fewer bytes show who comes late, and nothing of the network.
const WRONG: f32 = 10.0;
const NOTICEABLE: Duration = Duration::from_millis(5);
const TELLING: usize = 64 << 10;
/// Sizes of calls are told apart by powers of two.
const SIZES: usize = 64;

/// With which other calls one is compared.
fn class_of(collective: Collective, bytes: usize) -> u16 {
    let kind = Collective::ALL.iter().position(|known| *known == collective.with_root(0)).unwrap_or(0);
    (kind * SIZES + size_of_bytes(bytes)) as u16
}

fn size_of_bytes(bytes: usize) -> usize {
    ((usize::BITS - bytes.leading_zeros()) as usize).min(SIZES - 1)
}

/// Why the network should be looked at again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Suspicion {
    /// How many times as long as usual calls take, at least.
    pub ratio: f32,
    /// What the latest of them has taken, and what was predicted, in seconds.
    pub took: f32,
    pub predicted: f32,
    class: u16,
}

impl Suspicion {
    /// Which calls these are, and of at least how many bytes.
    pub fn calls(&self) -> (Collective, usize) {
        let (kind, size) = (usize::from(self.class) / SIZES, usize::from(self.class) % SIZES);
        (Collective::ALL[kind], 1 << size >> 1)
    }
}

/// What a call shows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Sign {
    #[default]
    Nothing,
    /// Calls take longer or shorter than they used to.
    Changed(Suspicion),
    /// They take many times as long as predicted, from the first on, and still do after that was a suspicion.
    Unpredicted(Suspicion),
}

#[derive(Debug, Clone, Copy, Default)]
struct CallClass {
    calls: u32,
    /// The usual ratio; 0 while it is not known.
    usual: f32,
    streak: Streak,
    /// How many calls in a row took many times their prediction.
    unpredicted: u32,
}

/// Calls in a row that are all slow, or all fast.
#[derive(Debug, Clone, Copy, Default)]
struct Streak {
    is_slow: bool,
    calls: u32,
    /// The ratio nearest to the usual one.
    nearest: f32,
    seconds: f32,
}

/// How many of the latest calls are compared between ranks, to find one that comes late.
const LATEST: usize = 8;

/// The calls of one communicator.
pub(super) struct Watch {
    classes: Vec<CallClass>,
    /// What the latest calls have taken.
    latest: [f32; LATEST],
    calls: usize,
    /// Whether calls are of no interest now.
    is_resting: bool,
}

impl Watch {
    pub fn new() -> Watch {
        Watch {
            classes: vec![CallClass::default(); Collective::ALL.len() * SIZES],
            latest: [0.0; LATEST],
            calls: 0,
            is_resting: false,
        }
    }

    /// Takes note of a call.
    pub fn note(&mut self, prediction: Prediction, took: Duration) -> Sign {
        if self.is_resting {
            return Sign::Nothing;
        }
        let Prediction { collective, bytes, seconds: predicted, internal } = prediction;
        let class = class_of(collective, bytes);
        let took = took.as_secs_f32();
        self.latest[self.calls % LATEST] = took;
        self.calls = self.calls.wrapping_add(1);
        let is_telling = !internal && bytes >= TELLING;
        self.classes[usize::from(class)].note(class, took, predicted, is_telling)
    }

    /// How long this rank was in the latest calls, in seconds. A rank that comes late waits less than others.
    pub fn latest(&self) -> f32 {
        self.latest.iter().sum()
    }

    /// The next calls say nothing: they are those by which ranks look at their network.
    pub fn rest(&mut self) {
        self.is_resting = true;
    }

    /// What is seen now is usual from now on: there is nothing behind it.
    pub fn get_used(&mut self) {
        self.is_resting = false;
        for class in self.classes.iter_mut().filter(|class| class.usual > 0.0) {
            if class.streak.calls > 0 {
                class.usual = class.streak.nearest;
            }
            class.streak = Streak::default();
        }
    }

    /// Begins to look anew, with what is usual as it was.
    pub fn restart(&mut self) {
        self.is_resting = false;
        self.classes.iter_mut().for_each(|class| (class.streak, class.unpredicted) = Default::default());
    }
}

impl CallClass {
    fn note(&mut self, class: u16, took: f32, predicted: f32, is_telling: bool) -> Sign {
        let ratio = took / predicted;
        self.calls = self.calls.saturating_add(1);
        let wrong = is_telling && ratio >= WRONG && took - predicted >= NOTICEABLE.as_secs_f32();
        self.unpredicted = if wrong { self.unpredicted + 1 } else { 0 };
        let suspicion = |ratio| Suspicion { ratio, took, predicted, class };
        match self.compare(ratio, took) {
            Some(ratio) => Sign::Changed(suspicion(ratio)),
            None if self.unpredicted == CALLS => Sign::Changed(suspicion(ratio)),
            None if wrong && self.unpredicted.is_multiple_of(CALLS) => Sign::Unpredicted(suspicion(ratio)),
            None => Sign::Nothing,
        }
    }

    /// How many times as long as usual calls take lately, if they do.
    fn compare(&mut self, ratio: f32, took: f32) -> Option<f32> {
        if self.calls <= SKIPPED + LEARNED {
            if self.calls > SKIPPED {
                self.usual = if self.usual == 0.0 { ratio } else { self.usual.min(ratio) };
            }
            return None;
        }
        let relative = ratio / self.usual;
        if (FAST..SLOW).contains(&relative) {
            self.usual += (ratio - self.usual) * PACE;
            self.streak.calls = 0;
            return None;
        }
        let is_slow = relative >= SLOW;
        let streak = &mut self.streak;
        if streak.calls == 0 || streak.is_slow != is_slow {
            *streak = Streak { is_slow, calls: 0, nearest: ratio, seconds: 0.0 };
        }
        streak.calls += 1;
        streak.seconds += took;
        streak.nearest = if is_slow { streak.nearest.min(ratio) } else { streak.nearest.max(ratio) };
        let many = streak.calls >= CALLS && (!is_slow || streak.seconds >= LONG.as_secs_f32());
        let long = streak.calls >= FEW && streak.seconds >= LONGER.as_secs_f32();
        if !many && !long {
            return None;
        }
        let ratio = streak.nearest / self.usual;
        // The next calls say again whether it lasts.
        (streak.calls, streak.seconds) = (1, took);
        Some(ratio)
    }
}

/// What calls show, and when to look in any case.
pub(super) struct Watching {
    pub watch: Watch,
    /// What was noticed, and told nobody so far.
    sign: Sign,
    /// When to look whether what had become slow has recovered: calls that avoid it do not show that.
    due: Option<Instant>,
}

impl Watching {
    pub fn new() -> Watching {
        Watching { watch: Watch::new(), sign: Sign::default(), due: None }
    }

    /// Takes note of a call.
    pub fn note(&mut self, prediction: Prediction, took: Duration) {
        let sign = self.watch.note(prediction, took);
        if sign != Sign::Nothing {
            self.sign = sign;
        }
    }

    /// What the times of calls have shown since this was last asked, and whether it is time to look at the network in any
    /// case.
    pub fn take_sign(&mut self) -> (Sign, bool) {
        let is_due = self.due.is_some_and(|due| Instant::now() >= due);
        (std::mem::take(&mut self.sign), is_due)
    }

    /// From this time on, the rank wants to look at the network in any case. Forgets what was noticed before.
    pub fn look_from(&mut self, due: Option<Instant>) {
        (self.due, self.sign) = (due, Sign::Nothing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicted(collective: Collective, bytes: usize, seconds: f32) -> Prediction {
        Prediction { collective, bytes, seconds, internal: false }
    }

    /// Feeds calls that were predicted to take 10 ms; returns which of them was the first to be a sign.
    fn feed(watch: &mut Watch, milliseconds: impl IntoIterator<Item = f64>) -> Option<usize> {
        let prediction = predicted(Collective::Allreduce, 1 << 20, 0.01);
        let mut note = |took: f64| watch.note(prediction, Duration::from_secs_f64(took / 1e3));
        milliseconds.into_iter().position(|took| note(took) != Sign::Nothing)
    }

    fn usual(number: usize) -> f64 {
        13.0 + (number * 7 % 5) as f64
    }

    #[test]
    fn calls_that_stay_slow_are_noticed_soon() {
        let mut watch = Watch::new();
        assert_eq!(feed(&mut watch, (0..100).map(usual)), None);
        assert_eq!(feed(&mut watch, std::iter::repeat_n(52.0, 100)), Some(4));
    }

    /// Every second call waits for a late rank: there is nothing wrong with the network.
    #[test]
    fn late_ranks_are_not_slow_links() {
        let mut watch = Watch::new();
        let late = |number: usize| if number.is_multiple_of(2) { usual(number) } else { 200.0 };
        assert_eq!(feed(&mut watch, (0..1000).map(late)), None);
    }

    #[test]
    fn a_recovery_is_noticed_too() {
        let mut watch = Watch::new();
        assert_eq!(feed(&mut watch, (0..50).map(usual)), None);
        assert!(feed(&mut watch, std::iter::repeat_n(40.0, 20)).is_some());
        watch.get_used();
        assert_eq!(feed(&mut watch, std::iter::repeat_n(41.0, 50)), None, "it is used to that");
        assert_eq!(feed(&mut watch, (0..50).map(usual)), Some(4));
    }

    /// Short calls must be slow for a while: other work on the machine may hold up many of them.
    #[test]
    fn short_calls_have_to_add_up() {
        let prediction = predicted(Collective::Allreduce, 8, 1e-4);
        let mut watch = Watch::new();
        let mut note = |took: f64| watch.note(prediction, Duration::from_secs_f64(took));
        (0..100).for_each(|_| assert_eq!(note(1.2e-4), Sign::Nothing));
        let found = (0..10_000).position(|_| note(3e-4) != Sign::Nothing).unwrap();
        assert!((800..900).contains(&found), "{found}");
    }

    /// The first look is a suspicion, and only what goes on after that is told. Calls of few bytes tell nothing.
    #[test]
    fn wrong_predictions_are_told_after_a_second_look() {
        let of = |bytes: usize| {
            let prediction = predicted(Collective::Allgather, bytes, 0.001);
            let mut watch = Watch::new();
            let signs: Vec<Sign> =
                (0..14).map(|_| watch.note(prediction, Duration::from_millis(80))).collect();
            signs.into_iter().enumerate().filter(|(_, sign)| *sign != Sign::Nothing).collect::<Vec<_>>()
        };
        match of(1 << 20)[..] {
            [(4, Sign::Changed(_)), (9, Sign::Unpredicted(told))] => {
                assert_eq!(told.calls(), (Collective::Allgather, 1 << 20));
            }
            ref other => panic!("{other:?}"),
        }
        assert!(of((64 << 10) - 1).is_empty(), "a barrier takes long where somebody comes late");
    }

    #[test]
    fn sizes_and_collectives_are_apart() {
        let root = Collective::Broadcast { root: 3 };
        assert_eq!(class_of(root, 1000), class_of(root.with_root(0), 1023));
        assert_ne!(class_of(root, 1000), class_of(root, 2000));
        assert_ne!(class_of(root, 1000), class_of(Collective::Allgather, 1000));
        assert!(
            usize::from(class_of(*Collective::ALL.last().unwrap(), usize::MAX)) < Watch::new().classes.len()
        );
    }
}
