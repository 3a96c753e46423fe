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

use super::parse::{number, operand, ratio};
use super::without::Cut;
use super::{Topology, TopologyError};

/// The operands and the parameters of an operator, as they are written.
pub(super) struct Arguments<'a> {
    operands: Vec<&'a str>,
    parameters: Vec<&'a str>,
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
pub(super) fn arguments<'a>(operator: &str, inner: &'a str) -> Option<Arguments<'a>> {
    let commas = commas(inner);
    let (operands, parameters) = match operator {
        "line" | "line-graph" | "transpose" | "bidirectional" => (vec![inner.trim()], Vec::new()),
        "degree" | "power" | "bottleneck" => {
            let last = *commas.last()?;
            (vec![inner[..last].trim()], vec![inner[last + 1..].trim()])
        }
        "product" => {
            let begins =
                |at: &usize| inner[at + 1..].trim_start().starts_with(|c: char| c.is_ascii_alphabetic());
            (cut_at(inner, &commas.into_iter().filter(begins).collect::<Vec<usize>>()), Vec::new())
        }
        "without" => {
            let parts = cut_at(inner, &commas);
            let cuts = parts.iter().rev().take_while(|part| cut(part).is_some()).count();
            let first = *commas.get(commas.len().checked_sub(cuts)?)?;
            (vec![inner[..first].trim()], parts[parts.len() - cuts..].to_vec())
        }
        _ => return None,
    };
    Some(Arguments { operands, parameters })
}

/// Applies an operator to the text in its parentheses; `None` where the operator is unknown or the text lacks the form
/// that it needs.
pub(super) fn apply(operator: &str, inner: &str) -> Option<Result<Topology, TopologyError>> {
    let Arguments { operands, parameters } = arguments(operator, inner)?;
    let operands = match operands.into_iter().map(operand).collect::<Result<Vec<Topology>, _>>() {
        Ok(operands) => operands,
        Err(error) => return Some(Err(error)),
    };
    let first = &operands[0];
    Some(match operator {
        "line" => first.line(),
        "line-graph" => first.line_graph(),
        "transpose" => first.transpose(),
        "bidirectional" => first.bidirectional(),
        "degree" => first.degree_expansion(number(parameters[0])?),
        "power" => first.power(number(parameters[0])?),
        "bottleneck" => first.behind_cards(ratio(parameters[0])?),
        "product" => Topology::product(&operands.iter().collect::<Vec<&Topology>>()),
        _ => first.without(&parameters.into_iter().map(cut).collect::<Option<Vec<Cut>>>()?),
    })
}

/// Reads a cable `0-1` or a link `5>6`.
fn cut(text: &str) -> Option<Cut> {
    let (at, c) = text.char_indices().find(|(_, c)| "->".contains(*c))?;
    let (from, to) = (number(text[..at].trim())?, number(text[at + 1..].trim())?);
    Some(Cut { from, to, both: c == '-' })
}

/// Splits a spec such as `without(ring:8, 0-1)` into the operator, its operands and its parameters, as they are
/// written. `None` where the spec is not an operator's. The operands are not checked.
pub fn operands(spec: &str) -> Option<(&str, Vec<&str>, Vec<&str>)> {
    let spec = spec.trim();
    let commas = commas(spec);
    let wiring = commas.first().map_or(spec, |at| spec[..*at].trim_end());
    let (operator, inner) = wiring.split_once('(')?;
    let Arguments { operands, parameters } = arguments(operator, inner.strip_suffix(')')?)?;
    Some((operator, operands, parameters))
}
