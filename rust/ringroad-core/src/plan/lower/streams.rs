//! Streams of bytes that lie in several pieces of memory: cutting them, and matching the pieces of several streams.

use std::ops::Range;

use crate::plan::Span;

/// The parts of a stream within `range`. Positions are relative to the start of the range.
pub(super) fn cut(stream: &[(usize, Span)], range: &Range<usize>) -> Vec<(usize, Span)> {
    stream
        .iter()
        .filter_map(|&(at, span)| {
            let start = at.max(range.start);
            let end = (at + span.bytes).min(range.end);
            (start < end).then(|| (start - range.start, span.part(start - at, end - start)))
        })
        .collect()
}

/// Two streams of the same length, cut at the borders of both: `(position, left part, right part)`.
pub(super) fn zip(left: &[(usize, Span)], right: &[(usize, Span)]) -> Vec<(usize, Span, Span)> {
    let mut pairs = Vec::new();
    for (at, span) in left {
        for (position, other) in cut(right, &(*at..at + span.bytes)) {
            pairs.push((at + position, span.part(position, other.bytes), other));
        }
    }
    pairs
}

/// As [`zip`], for `targets` and any number of other streams: `(target, parts of the others)`.
pub(super) fn zip_all(targets: &[(usize, Span)], divisions: &[Vec<(usize, Span)>]) -> Vec<(Span, Vec<Span>)> {
    let mut borders: Vec<usize> =
        divisions.iter().flatten().chain(targets).flat_map(|(at, span)| [*at, at + span.bytes]).collect();
    borders.sort_unstable();
    borders.dedup();
    let part =
        |stream: &[(usize, Span)], range: &Range<usize>| cut(stream, range).first().map(|(_, span)| *span);
    let ranges = borders.windows(2).map(|pair| pair[0]..pair[1]);
    let parts = |range| {
        let sources = divisions.iter().map(|stream| part(stream, &range)).collect::<Option<Vec<_>>>()?;
        Some((part(targets, &range)?, sources))
    };
    ranges.filter_map(parts).collect()
}

/// Joins moves (target, source) that are adjacent on both sides, and drops empty ones.
pub(super) fn merge(moves: Vec<(Span, Span)>) -> Vec<(Span, Span)> {
    let mut merged: Vec<(Span, Span)> = Vec::new();
    for (target, source) in moves.into_iter().filter(|(t, _)| t.bytes > 0) {
        match merged.last_mut() {
            Some((t, s))
                if t.buffer == target.buffer
                    && s.buffer == source.buffer
                    && t.end() == target.offset
                    && s.end() == source.offset =>
            {
                t.bytes += target.bytes;
                s.bytes += source.bytes;
            }
            _ => merged.push((target, source)),
        }
    }
    merged
}
