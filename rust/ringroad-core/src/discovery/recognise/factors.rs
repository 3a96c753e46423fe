//! Sizes of grids.

/// The most grids that are listed.
const MAX_GRIDS: usize = 500;

/// All lists of sizes of at least `least` with this product, in every order; those with fewer sizes first, and among
/// these the larger sizes first.
pub(super) fn grids(product: usize, least: usize) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let mut open = vec![(Vec::new(), product)];
    while let Some((sizes, left)) = open.pop() {
        if found.len() >= MAX_GRIDS {
            break;
        }
        if left == 1 && !sizes.is_empty() {
            found.push(sizes);
            continue;
        }
        for size in (least..=left).filter(|size| left % size == 0) {
            let mut next: Vec<usize> = sizes.clone();
            next.push(size);
            open.push((next, left / size));
        }
    }
    found.sort_by_key(|sizes| (sizes.len(), std::cmp::Reverse(sizes.clone())));
    found
}

/// Sizes as specs write them.
pub(super) fn join(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<String>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_of_twelve() {
        let found: Vec<String> = grids(12, 2).iter().map(|sizes| join(sizes)).collect();
        assert_eq!(found, ["12", "6x2", "4x3", "3x4", "2x6", "3x2x2", "2x3x2", "2x2x3"]);
        assert_eq!(grids(12, 3).len(), 3);
        assert_eq!(grids(7, 2), [[7]]);
        assert!(grids(1, 2).is_empty());
    }
}
