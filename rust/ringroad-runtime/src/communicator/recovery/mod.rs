//! Other groups of the same processes: who is left after a loss, and how these, or parts of a group, connect anew.

pub(super) mod after_pauses;
mod membership;
mod regrouping;
mod split;
