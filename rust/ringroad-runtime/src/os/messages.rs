//! What is printed on standard error.

use std::collections::BTreeSet;
use std::io::Write;

use super::fork::Global;

/// Says something on standard error, in one piece, if somebody still reads that.
pub(crate) fn print_message(text: &str) {
    let _ = std::io::stderr().write_all(format!("ringroad: {text}\n").as_bytes());
}

/// Prints a warning on standard error, once for each `key`, however many communicators there are.
pub(crate) fn warn_once(key: &str, text: &str) {
    if is_new(key) {
        print_message(&format!("warning: {text}"));
    }
}

/// Says something that is no warning, once in this process.
pub(crate) fn say_once(text: &str) {
    if is_new(text) {
        print_message(text);
    }
}

fn is_new(key: &str) -> bool {
    static SAID: Global<BTreeSet<String>> = Global::new();
    SAID.lock().insert(key.to_owned())
}
