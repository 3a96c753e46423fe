//! Whether two graphs are the same but for the numbers of their nodes: by refining colours until they tell nodes apart,
//! and trying where they do not (McKay, Piperno: Practical graph isomorphism II, 2014, in its simplest form).

use std::collections::BTreeMap;

use super::shape::SimpleGraph;

/// How many steps searches may take before they give up.
#[derive(Debug)]
pub(super) struct StepBudget(pub usize);

impl StepBudget {
    fn take_steps(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.checked_sub(steps)?;
        Some(())
    }

    /// Takes what is left, after which nothing is.
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

/// The colours of the nodes of both graphs.
type Colours = [Vec<usize>; 2];

/// For each node of `one` the node of `other` that it is, if they are the same graph; `keep` says that every rank must
/// have its own number there. Where several paths lead to Rome, ranks keep their numbers if they can.
pub(super) fn find(
    one: &SimpleGraph,
    other: &SimpleGraph,
    keep: bool,
    budget: &mut StepBudget,
) -> Option<Vec<usize>> {
    if one.ranks != other.ranks || one.degrees() != other.degrees() {
        return None;
    }
    let start = |shape: &SimpleGraph| -> Vec<usize> {
        let colour = |node| {
            if node >= shape.ranks {
                shape.ranks
            } else if keep {
                node
            } else {
                0
            }
        };
        (0..shape.nodes()).map(colour).collect()
    };
    match search([one, other], [start(one), start(other)], budget) {
        Some(found) => found,
        None => {
            budget.0 = 0;
            None
        }
    }
}

/// A mapping that respects the colours, `Some(None)` where there is none, and `None` where the budget is spent.
fn search(
    shapes: [&SimpleGraph; 2],
    colours: Colours,
    budget: &mut StepBudget,
) -> Option<Option<Vec<usize>>> {
    let Some(colours) = refine(shapes, colours, budget)? else { return Some(None) };
    let mut members: [BTreeMap<usize, Vec<usize>>; 2] = Default::default();
    for (members, colours) in members.iter_mut().zip(&colours) {
        colours.iter().enumerate().for_each(|(node, colour)| members.entry(*colour).or_default().push(node));
    }
    let open = members[0].iter().filter(|(_, nodes)| nodes.len() > 1);
    let Some((colour, nodes)) = open.min_by_key(|(_, nodes)| nodes[0]) else {
        let image = |colour: &usize| members[1][colour][0];
        return Some(Some(colours[0].iter().map(image).collect()));
    };
    let (node, fresh) = (nodes[0], colours[0].len() + colours[1].len());
    let mut images = members[1][colour].clone();
    images.sort_by_key(|image| (*image != node, *image));
    for image in images {
        let mut next = colours.clone();
        (next[0][node], next[1][image]) = (fresh, fresh);
        if let Some(found) = search(shapes, next, budget)? {
            return Some(Some(found));
        }
    }
    Some(None)
}

/// Colours nodes by the colours around them until that tells no more of them apart. `Some(None)` where the graphs differ.
fn refine(
    shapes: [&SimpleGraph; 2],
    mut colours: Colours,
    budget: &mut StepBudget,
) -> Option<Option<Colours>> {
    let mut count = 0;
    loop {
        budget.take_steps(shapes[0].nodes() + 2 * shapes[0].edges())?;
        let mut numbers: BTreeMap<(usize, Vec<usize>, Vec<usize>), [usize; 2]> = BTreeMap::new();
        let signs: [Vec<_>; 2] = [0, 1].map(|side| {
            let around = |nodes: &[usize]| {
                let mut seen: Vec<usize> = nodes.iter().map(|node| colours[side][*node]).collect();
                seen.sort_unstable();
                seen
            };
            let shape = shapes[side];
            let sign =
                |node: usize| (colours[side][node], around(&shape.out[node]), around(&shape.into[node]));
            (0..shape.nodes()).map(sign).collect()
        });
        for (side, signs) in signs.iter().enumerate() {
            signs.iter().for_each(|sign| numbers.entry(sign.clone()).or_default()[side] += 1);
        }
        if numbers.values().any(|counts| counts[0] != counts[1]) {
            return Some(None);
        }
        let order: BTreeMap<_, usize> =
            numbers.keys().enumerate().map(|(number, sign)| (sign, number)).collect();
        colours = signs.each_ref().map(|signs| signs.iter().map(|sign| order[sign]).collect());
        if order.len() == count {
            return Some(Some(colours));
        }
        count = order.len();
    }
}
