//! How numbers and names in specs are read and written.

/// The endings of names of files with graphs.
pub(super) const FILES: [&str; 7] = ["json", "graphml", "gml", "csv", "edges", "edgelist", "txt"];

/// Digits only; what is too long for a number is certainly too large a topology.
pub(super) fn number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}

/// Digits, and a fraction where there is one.
pub(super) fn ratio(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

/// Sizes with an `x` between them.
pub(super) fn sizes(text: &str) -> Option<Vec<usize>> {
    text.split('x').map(number).collect()
}

/// Numbers with commas between them, and blanks around them.
pub(super) fn numbers(text: &str) -> Option<Vec<usize>> {
    text.split(',').map(|n| number(n.trim())).collect()
}

/// The inverse of [`sizes`].
pub(super) fn join<T: ToString>(sizes: &[T]) -> String {
    sizes.iter().map(T::to_string).collect::<Vec<_>>().join("x")
}

/// The inverse of [`numbers`].
pub(super) fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
