//! Derives the dependencies of operations from the byte ranges that they read and write, in program order.

use std::collections::{BTreeMap, HashMap};

use super::{Buffer, Span};

/// The operations that touched a byte range last: its last writer, and the readers since.
#[derive(Debug, Clone, Default)]
struct Touched {
    end: usize,
    writer: Option<u32>,
    readers: Vec<u32>,
}

/// Records, for every byte of every buffer, its last writer and the readers since.
#[derive(Debug, Default)]
pub(super) struct Hazards {
    /// The touched ranges of each buffer, by their start. They do not overlap.
    buffers: HashMap<Buffer, BTreeMap<usize, Touched>>,
}

impl Hazards {
    /// Records that `operation` reads `span`, and adds the operations that it must wait for to `waits`.
    pub fn read(&mut self, span: Span, operation: u32, waits: &mut Vec<u32>) {
        self.touch(span, |touched| {
            waits.extend(touched.writer);
            touched.readers.push(operation);
        });
    }

    /// Records that `operation` writes `span`, and adds the operations that it must wait for to `waits`.
    pub fn write(&mut self, span: Span, operation: u32, waits: &mut Vec<u32>) {
        self.touch(span, |touched| {
            waits.extend(touched.writer);
            waits.append(&mut touched.readers);
            touched.writer = Some(operation);
        });
        waits.retain(|w| *w != operation);
    }

    /// The last writer of `span`, if a single operation was the last to write all of it.
    pub fn writer(&mut self, span: Span) -> Option<u32> {
        let mut writers = Vec::new();
        self.touch(span, |touched| writers.push(touched.writer));
        let first = writers.first().copied().flatten()?;
        writers.iter().all(|writer| *writer == Some(first)).then_some(first)
    }

    /// Whether any operation has written bytes of `span`.
    pub fn is_written(&mut self, span: Span) -> bool {
        let mut written = false;
        self.touch(span, |touched| written |= touched.writer.is_some());
        written
    }

    /// Whether `operation` or a later operation has touched bytes of `span`.
    pub fn touched_since(&mut self, span: Span, operation: u32) -> bool {
        let mut found = false;
        self.touch(span, |touched| {
            found |= touched.readers.iter().chain(&touched.writer).any(|other| *other >= operation);
        });
        found
    }

    /// Calls `visit` for every recorded range within `span`. Ranges that reach beyond are cut first, and gaps become
    /// ranges that no operation has touched.
    fn touch(&mut self, span: Span, mut visit: impl FnMut(&mut Touched)) {
        if span.bytes == 0 {
            return;
        }
        let ranges = self.buffers.entry(span.buffer).or_default();
        cut(ranges, span.offset);
        cut(ranges, span.end());
        let mut at = span.offset;
        let known: Vec<(usize, usize)> =
            ranges.range(span.offset..span.end()).map(|(s, t)| (*s, t.end)).collect();
        for (start, end) in known.into_iter().chain([(span.end(), span.end())]) {
            if at < start {
                ranges.insert(at, Touched { end: start, ..Touched::default() });
            }
            at = end;
        }
        ranges.range_mut(span.offset..span.end()).for_each(|(_, touched)| visit(touched));
    }
}

/// Cuts the range that reaches across `at`, if there is one.
fn cut(ranges: &mut BTreeMap<usize, Touched>, at: usize) {
    if let Some((_, touched)) = ranges.range_mut(..at).next_back().filter(|(_, t)| t.end > at) {
        let rest = touched.clone();
        touched.end = at;
        ranges.insert(at, rest);
    }
}
