//! Reads what an operator's parentheses contain: operands and parameters.
//!
//! ```text
//! product(circulant:16:3,4, line(ring:4))   a comma before a letter separates operands, others are part of a list
//! degree(circulant:16:3,4, 2)               the parameter follows the last comma
//! bottleneck(ring:4, 1.5)                   likewise
//! without(circulant:16:3,4, 0-3, 5>9)       the last parts that have the form of a cable or link are parameters
//! ```
//!
//! Blanks around operands and parameters are ignored.

use super::text::number;
use super::without::Cut;

/// The operands and the parameters of an operator, as they are written.
pub(super) struct Arguments<'a> {
    pub operands: Vec<&'a str>,
    pub parameters: Vec<&'a str>,
}

/// What stands in the parentheses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    /// An operand.
    One,
    /// An operand, and a number behind the last comma.
    OneAndNumber,
    /// Operands.
    Several,
    /// An operand, and cables and links.
    OneAndCuts,
}

/// The positions of the commas outside of parentheses.
pub(super) fn commas(text: &str) -> Vec<usize> {
    let mut depth = 0usize;
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => found.push(at),
            _ => {}
        }
    }
    found
}

/// How deeply parentheses are nested.
pub(super) fn depth(text: &str) -> usize {
    let mut depth = 0usize;
    let open = text.chars().map(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth
    });
    open.max().unwrap_or(0)
}

fn cut_at<'a>(text: &'a str, commas: &[usize]) -> Vec<&'a str> {
    let starts = [0].into_iter().chain(commas.iter().map(|at| at + 1));
    let ends = commas.iter().copied().chain([text.len()]);
    starts.zip(ends).map(|(start, end)| text[start..end].trim()).collect()
}

/// Splits the text in an operator's parentheses; `None` where the operator is unknown or the text lacks the form that
/// it needs.
pub(super) fn arguments<'a>(takes: Takes, inner: &'a str) -> Option<Arguments<'a>> {
    let commas = commas(inner);
    let (operands, parameters) = match takes {
        Takes::One => (vec![inner.trim()], Vec::new()),
        Takes::OneAndNumber => {
            let last = *commas.last()?;
            (vec![inner[..last].trim()], vec![inner[last + 1..].trim()])
        }
        Takes::Several => {
            let begins =
                |at: &usize| inner[at + 1..].trim_start().starts_with(|c: char| c.is_ascii_alphabetic());
            (cut_at(inner, &commas.into_iter().filter(begins).collect::<Vec<usize>>()), Vec::new())
        }
        Takes::OneAndCuts => {
            let parts = cut_at(inner, &commas);
            let cuts = parts.iter().rev().take_while(|part| cut(part).is_some()).count();
            let first = *commas.get(commas.len().checked_sub(cuts)?)?;
            (vec![inner[..first].trim()], parts[parts.len() - cuts..].to_vec())
        }
    };
    Some(Arguments { operands, parameters })
}

/// `0-1` or `5>6`.
pub(super) fn cut(text: &str) -> Option<Cut> {
    let (at, c) = text.char_indices().find(|(_, c)| "->".contains(*c))?;
    let (from, to) = (number(text[..at].trim())?, number(text[at + 1..].trim())?);
    Some(Cut { from, to, both: c == '-' })
}
