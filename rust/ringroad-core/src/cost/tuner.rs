//! Rules that select an algorithm: made from measured times, or read from files in the format of NCCL's tuner plugin.
//!
//! A file has comma-separated values, with one rule per line:
//! `collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks` and, optionally, `numPipeOps,regBuff`
//! (NCCL, ext-tuner/example/README.md). Both bounds belong to the range. `-1` means any value. Lines that start with
//! `#` and the line of headings are ignored. The first rule that fits counts. Bytes are those of the whole vector.
//! Protocols, channels, pipes and buffers are checked to be well-formed and have no other effect. Algorithms have their
//! names in the catalogue; NCCL's `tree` is `double-binary-tree`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::select::{SwitchRange, SwitchTable};
use crate::algorithms::{self, Member};
use crate::collective::Collective;
use crate::units::{Bytes, Seconds};

/// The headings of a file.
const HEADINGS: &str =
    "collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff";
/// A measured time counts as equal to the best up to this ratio. This avoids switches of algorithm for little gain or
/// noise.
const AS_GOOD: f64 = 1.03;

/// An algorithm for some sizes of a collective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The collective; with root 0 where it has a root, and then for all roots.
    pub collective: Collective,
    /// The smallest size.
    pub from_bytes: Bytes,
    /// The largest size.
    pub to_bytes: Bytes,
    /// The algorithm.
    pub algorithm: Member,
    /// The number of hosts for which the rule holds; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// The number of ranks for which the rule holds; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<usize>,
}

impl Rule {
    /// Whether the rule holds for `ranks` ranks on `nodes` hosts.
    pub fn is_for(&self, nodes: usize, ranks: usize) -> bool {
        self.nodes.is_none_or(|n| n == nodes) && self.ranks.is_none_or(|n| n == ranks)
    }
}

/// Why a line is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; a rule is {HEADINGS}, with -1 for anything, and the last two may be left out")]
pub struct RuleError {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub what: String,
}

/// Reads the rules of a file; the error is that of the first line that is not a rule.
pub fn read_rules(text: &str) -> Result<Vec<Rule>, RuleError> {
    let lines = text.lines().map(str::trim).enumerate();
    let written = lines.filter(|(_, line)| {
        !line.is_empty() && !line.starts_with('#') && !line.to_ascii_lowercase().starts_with("collective")
    });
    written.map(|(index, line)| rule(line).map_err(|what| RuleError { line: index + 1, what })).collect()
}

/// The text of a file with these rules, which [`read_rules`] reads.
pub fn write_rules(rules: &[Rule]) -> String {
    let mut text = format!("{HEADINGS}\n");
    for rule in rules {
        let any = |number: Option<usize>| number.map_or("-1".to_owned(), |n| n.to_string());
        let most = if rule.to_bytes == Bytes::MAX { "-1".to_owned() } else { rule.to_bytes.to_string() };
        let Rule { collective, from_bytes, algorithm, nodes, ranks, .. } = rule;
        let (nodes, ranks) = (any(*nodes), any(*ranks));
        let collective = collective.name().replace('_', "");
        text += &format!("{collective},{from_bytes},{most},{algorithm},simple,-1,{nodes},{ranks},-1,-1\n");
    }
    text
}

fn rule(line: &str) -> Result<Rule, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if !(8..=10).contains(&fields.len()) {
        return Err(format!("{line:?} has {} fields instead of 8 to 10", fields.len()));
    }
    let number = |name: &str, text: &str| match text {
        "-1" => Ok(None),
        _ => text.parse::<u64>().map(Some).map_err(|_| format!("{name} {text:?} is not a number")),
    };
    let count = |name: &str, text: &str| {
        let small = |n: u64| usize::try_from(n).map_err(|_| format!("{name} {text:?} is too large"));
        number(name, text)?.map(small).transpose()
    };
    let collective = collective(fields[0])?;
    let (from, to) = (number("minbytes", fields[1])?, number("maxbytes", fields[2])?);
    let (from_bytes, to_bytes) = (from.unwrap_or(0), to.unwrap_or(Bytes::MAX));
    if from_bytes > to_bytes {
        return Err(format!("minbytes {from_bytes} is above maxbytes {to_bytes}"));
    }
    // The protocol has no effect, but a number shows that columns are shifted.
    if fields[4].parse::<u64>().is_ok() {
        return Err(format!("protocol {:?} is a number; a name belongs there", fields[4]));
    }
    for (name, field) in
        ["channels", "nNodes", "nRanks", "numPipeOps", "regBuff"].into_iter().zip(&fields[5..])
    {
        number(name, field)?;
    }
    let (nodes, ranks) = (count("nNodes", fields[6])?, count("nRanks", fields[7])?);
    Ok(Rule { collective, from_bytes, to_bytes, algorithm: algorithm(fields[3], collective)?, nodes, ranks })
}

/// Reads the name of a collective, with or without separators: NCCL writes `reducescatter`.
fn collective(name: &str) -> Result<Collective, String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['_', '-'], "");
    let found = Collective::ALL.into_iter().find(|collective| plain(collective.name()) == plain(name));
    let known = || Collective::ALL.map(|collective| collective.name()).join(", ");
    found.ok_or_else(|| format!("unknown collective {name:?}; expected one of: {}", known()))
}

fn algorithm(name: &str, collective: Collective) -> Result<Member, String> {
    let name = if name.eq_ignore_ascii_case("tree") { "double-binary-tree" } else { name };
    let member = algorithms::find(name).map_err(|error| error.to_string())?;
    match member.algorithm().offer(collective) {
        Some(offer) if offer.has(member.parameter()) => Ok(member),
        _ => Err(format!("{member} performs no {}", collective.name())),
    }
}

/// A measured time of an algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The collective, with root 0 where it has a root.
    pub collective: Collective,
    /// By which algorithm.
    pub algorithm: Member,
    /// The size of the vector.
    pub bytes: Bytes,
    /// The measured time.
    pub seconds: Seconds,
}

/// The rules that follow from measured times of a collective, for sizes from the smallest to the largest measured one.
/// There are as few rules as possible such that no measured size gets an algorithm that is noticeably slower than the
/// best. Between two sizes, the logarithm of the time is taken to be linear in the logarithm of the size, and the
/// border is where two lines cross.
pub fn rules_of(collective: Collective, measurements: &[Measurement]) -> Vec<Rule> {
    let collective = collective.with_root(0);
    let mut sizes: BTreeMap<Bytes, BTreeMap<Member, Seconds>> = BTreeMap::new();
    for m in measurements.iter().filter(|m| m.collective == collective) {
        sizes.entry(m.bytes).or_default().insert(m.algorithm, m.seconds);
    }
    let sizes: Vec<(Bytes, BTreeMap<Member, Seconds>)> = sizes.into_iter().collect();
    let mut ranges: Vec<SwitchRange> = Vec::new();
    let (mut at, mut before) = (0, None);
    while at < sizes.len() {
        let (algorithm, end) = longest(&sizes, at);
        let from_bytes = match before {
            None => sizes[0].0,
            Some(previous) => crossing(&sizes[at - 1], &sizes[at], previous, algorithm),
        };
        ranges.push(SwitchRange::measured(from_bytes, algorithm));
        (at, before) = (end, Some(algorithm));
    }
    rules_for(collective, &ranges, sizes.last().map_or(0, |(bytes, _)| *bytes))
}

/// The rules that make the choice of a table, for any number of ranks and hosts.
pub fn rules_of_table(collective: Collective, table: &SwitchTable) -> Vec<Rule> {
    rules_for(collective.with_root(0), table.ranges(), Bytes::MAX)
}

/// A rule for each range; the last one ends at `last`.
fn rules_for(collective: Collective, ranges: &[SwitchRange], last: Bytes) -> Vec<Rule> {
    let ends = ranges.iter().skip(1).map(|range| range.from_bytes - 1).chain([last]);
    let rule = |(range, to_bytes): (&SwitchRange, Bytes)| Rule {
        collective,
        from_bytes: range.from_bytes,
        to_bytes,
        algorithm: range.algorithm,
        nodes: None,
        ranks: None,
    };
    ranges.iter().zip(ends).map(rule).collect()
}

/// The algorithm that stays as good as the best for the most sizes from `at` on, of equals the one that is the fastest
/// over all of them; and after which size it does not.
fn longest(sizes: &[(Bytes, BTreeMap<Member, Seconds>)], at: usize) -> (Member, usize) {
    let best = |times: &BTreeMap<Member, Seconds>| times.values().copied().fold(f64::INFINITY, f64::min);
    // How much longer than the best it takes at a size, as a logarithm.
    let behind = |algorithm: &Member, times: &BTreeMap<Member, Seconds>| {
        let ratio = times.get(algorithm)? / best(times);
        (ratio <= AS_GOOD).then(|| ratio.ln())
    };
    let run = |algorithm: &Member| {
        let each = sizes[at..].iter().map_while(|(_, times)| behind(algorithm, times));
        let (count, sum) = each.fold((0, 0.0), |(count, sum), next| (count + 1, sum + next));
        (*algorithm, count, sum)
    };
    let (algorithm, count, _) = sizes[at]
        .1
        .keys()
        .map(run)
        .reduce(|a, b| if (b.1, a.2) > (a.1, b.2) { b } else { a })
        .expect("a size has measurements, and one of them is the best");
    (algorithm, at + count)
}

/// The first number of bytes after one size, up to the next size, for which `next` takes no longer than `previous`.
fn crossing(
    before: &(Bytes, BTreeMap<Member, Seconds>),
    after: &(Bytes, BTreeMap<Member, Seconds>),
    previous: Member,
    next: Member,
) -> Bytes {
    let gap = |times: &BTreeMap<Member, Seconds>| Some((times.get(&next)? / times.get(&previous)?).ln());
    let (Some(first), Some(second)) = (gap(&before.1), gap(&after.1)) else { return after.0 };
    if first <= 0.0 {
        return before.0 + 1;
    }
    let share = if first > second { first / (first - second) } else { 1.0 };
    let (low, high) = ((before.0.max(1)) as f64, after.0 as f64);
    let border = (low.ln() + share.clamp(0.0, 1.0) * (high / low).ln()).exp().ceil() as Bytes;
    border.clamp(before.0 + 1, after.0)
}

#[cfg(test)]
mod tests {
    use super::super::select::Origin;
    use super::*;

    const NCCL: &str = "\
# from NCCL's example
collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks
allreduce,0,65536,tree,simple,2,1,-1
allreduce, 65537, -1, ring, LL128, 4, -1, 8, 2, 1
ReduceScatter,-1,-1,halving_doubling,-1,-1,2,16
";

    #[test]
    fn files_are_read_and_written() {
        let rules = read_rules(NCCL).unwrap();
        let line =
            |r: &Rule| (r.collective.name(), r.from_bytes, r.to_bytes, r.algorithm.name(), r.nodes, r.ranks);
        let lines: Vec<_> = rules.iter().map(line).collect();
        let name = str::to_owned;
        assert_eq!(
            lines,
            [
                ("allreduce", 0, 65536, name("double-binary-tree"), Some(1), None),
                ("allreduce", 65537, Bytes::MAX, name("ring"), None, Some(8)),
                ("reduce_scatter", 0, Bytes::MAX, name("halving-doubling"), Some(2), Some(16)),
            ]
        );
        assert_eq!(read_rules(&write_rules(&rules)).unwrap(), rules);
        insta::assert_snapshot!(write_rules(&rules), @r"
        collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
        allreduce,0,65536,double-binary-tree,simple,-1,1,-1,-1,-1
        allreduce,65537,-1,ring,simple,-1,-1,8,-1,-1
        reducescatter,0,-1,halving-doubling,simple,-1,2,16,-1,-1
        ");
        assert!(
            rules[0].is_for(1, 5)
                && !rules[0].is_for(2, 5)
                && rules[1].is_for(3, 8)
                && !rules[1].is_for(3, 9)
        );
        assert_eq!(read_rules("# nothing\n\n"), Ok(vec![]));
    }

    #[test]
    fn tables_become_rules() {
        let [ring, swing] = ["ring", "swing"].map(|name| algorithms::find(name).unwrap());
        let table = SwitchTable::always(swing).overlaid(100, Bytes::MAX, ring, Origin::Model);
        let rules = rules_of_table(Collective::Allreduce, &table);
        insta::assert_snapshot!(write_rules(&rules), @r"
        collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
        allreduce,0,99,swing,simple,-1,-1,-1,-1,-1
        allreduce,100,-1,ring,simple,-1,-1,-1,-1,-1
        ");
        assert_eq!(read_rules(&write_rules(&rules)), Ok(rules));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        let check = |line: &str, expected: &str| {
            let error = read_rules(&format!("# one\n{line}")).unwrap_err();
            assert!(error.line == 2 && error.what.contains(expected), "{error}");
        };
        check("allreduce,0,1,ring", "has 4 fields instead of 8 to 10");
        check(
            "allredcue,0,1,ring,simple,1,1,1",
            "unknown collective \"allredcue\"; expected one of: allreduce",
        );
        check("allreduce,0,1,nvls,simple,1,1,1", "unknown algorithm \"nvls\"");
        check("broadcast,0,1,ring,simple,1,1,1", "ring performs no broadcast");
        check("reduce_scatter,0,1,generalized:1,simple,1,1,1", "generalized:1 performs no reduce_scatter");
        check("allreduce,2,1,ring,simple,1,1,1", "minbytes 2 is above maxbytes 1");
        check("allreduce,many,1,ring,simple,1,1,1", "minbytes \"many\" is not a number");
        check("allreduce,0,1,ring,simple,1,1,-2", "nRanks \"-2\" is not a number");
        check("allreduce,0,1,ring,4,1,1,1", "protocol \"4\" is a number");
    }

    #[test]
    fn measured_times_make_rules() {
        let check = |times: &[(&str, &[(Bytes, f64)])], expected: &[(Bytes, Bytes, &str)]| {
            let all = times.iter().flat_map(|(algorithm, times)| times.iter().map(move |t| (algorithm, t)));
            let measurement = |(algorithm, (bytes, seconds)): (&&str, &(Bytes, f64))| Measurement {
                collective: Collective::Allreduce,
                algorithm: algorithms::find(algorithm).unwrap(),
                bytes: *bytes,
                seconds: *seconds,
            };
            let measurements: Vec<_> = all.map(measurement).collect();
            let rules = rules_of(Collective::Allreduce, &measurements);
            let found: Vec<_> =
                rules.iter().map(|r| (r.from_bytes, r.to_bytes, r.algorithm.name())).collect();
            let expected: Vec<_> =
                expected.iter().map(|(from, to, name)| (*from, *to, (*name).to_owned())).collect();
            assert_eq!(found, expected, "{times:?}");
            assert!(rules_of(Collective::Allgather, &measurements).is_empty());
        };
        check(&[], &[]);
        check(&[("ring", &[(8, 1.0)])], &[(8, 8, "ring")]);
        // The border is where the logarithms cross.
        let (a, b): (&[_], &[_]) = (&[(1, 1.0), (16, 4.0), (256, 16.0)], &[(1, 4.0), (16, 9.0), (256, 8.0)]);
        check(&[("ring", a), ("swing", b)], &[(1, 71, "ring"), (72, 256, "swing")]);
        // An algorithm that is slightly better at one size is no reason to switch; one that is much better is.
        let flicker = |better: f64| [(1, 1.0), (16, better), (256, 1.0)];
        let plain: &[_] = &[(1, 0.99), (16, 1.0), (256, 0.99)];
        check(&[("ring", &flicker(0.99)), ("swing", plain)], &[(1, 256, "swing")]);
        check(
            &[("ring", &[(1, 2.0), (16, 0.5), (256, 2.5)]), ("swing", plain)],
            &[(1, 4, "swing"), (5, 52, "ring"), (53, 256, "swing")],
        );
        // Not every algorithm was measured at every size.
        check(&[("ring", &[(1, 1.0)]), ("swing", &[(16, 1.0)])], &[(1, 15, "ring"), (16, 16, "swing")]);
    }
}
