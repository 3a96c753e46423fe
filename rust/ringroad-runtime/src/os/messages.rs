//! What is printed on standard error, each text once however many communicators there are.

use std::collections::BTreeSet;

use super::fork::Global;

/// Prints a warning on standard error, once for each `key`, however many communicators there are.
pub(crate) fn warn_once(key: &str, text: &str) {
    if is_new(key) {
        eprintln!("ringroad: warning: {text}");
    }
}

/// Says something that is no warning, once in this process.
pub(crate) fn say_once(text: &str) {
    if is_new(text) {
        eprintln!("ringroad: {text}");
    }
}

fn is_new(key: &str) -> bool {
    static SAID: Global<BTreeSet<String>> = Global::new();
    SAID.lock().insert(key.to_owned())
}
