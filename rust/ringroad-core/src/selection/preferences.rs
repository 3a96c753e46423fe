//! The user's preferences: among which algorithms to choose, as `RINGROAD_ALGO` and arguments specify.

use std::collections::BTreeMap;

use crate::algorithms::{self, given, Member};
use crate::collective::Collective;

/// Lists of members by the name of a collective.
type MemberLists = BTreeMap<&'static str, Vec<Member>>;

/// The algorithms among which the user wants the cheapest to be chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Algorithms {
    wanted: MemberLists,
    excluded: MemberLists,
    /// Given schedules that compete with the catalogue.
    beside: MemberLists,
    /// Files of schedules that are wanted, each for a collective if the user has named one.
    files: Vec<(Option<Collective>, String)>,
}

/// Before the path of a schedule's file, where otherwise the name of an algorithm is written.
const FILE: &str = "file:";

impl Algorithms {
    /// Reads a value of `RINGROAD_ALGO`, or an argument of the same form; the error is a message.
    ///
    /// A list without a collective holds for every collective that one of its algorithms performs and that has no list
    /// of its own. A list that starts with `^` excludes its algorithms, even if another list names them. `file:PATH` names
    /// the file of a schedule, which [`Algorithms::with_files`] adds.
    pub fn parse(text: &str) -> Result<Algorithms, String> {
        let (mut general, mut own, mut excluded) =
            (MemberLists::new(), MemberLists::new(), MemberLists::new());
        let mut files = Vec::new();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (collective, names) = split_collective(part)?;
            let names: Vec<&str> = names.split(',').map(str::trim).collect();
            let excludes = names[0].starts_with('^');
            for name in names {
                // One `^` at the start of a list suffices, as for NCCL; further ones are allowed.
                let bare = name.strip_prefix('^').unwrap_or(name).trim_start();
                if bare.is_empty() {
                    return Err(format!("{part:?} lacks the name of an algorithm"));
                }
                if bare.len() < name.len() && !excludes {
                    return Err(format!("{part:?} both names and leaves out; write a list of its own after a semicolon, such as ;^{bare}"));
                }
                if let Some(path) = bare.strip_prefix(FILE) {
                    if excludes || path.is_empty() {
                        return Err(format!("{part:?} should name a file to use, as {FILE}PATH"));
                    }
                    files.push((collective, path.to_owned()));
                    continue;
                }
                let member = algorithms::find(bare).map_err(|e| e.to_string())?;
                let lists = match (excludes, collective) {
                    (true, _) => &mut excluded,
                    (false, Some(_)) => &mut own,
                    (false, None) => &mut general,
                };
                match collective {
                    Some(collective) if member.algorithm().offer(collective).is_none() => {
                        return Err(not_offered(member.algorithm().name, collective));
                    }
                    Some(collective) => add(lists, collective, member),
                    None => member.algorithm().collectives().for_each(|c| add(lists, c, member)),
                }
            }
        }
        general.extend(own);
        Ok(Algorithms { wanted: general, excluded, beside: MemberLists::new(), files })
    }

    /// The same with the schedules of the files that it names, each of which `read` reads. The error is a message.
    pub fn with_files(
        mut self,
        mut read: impl FnMut(&str) -> Result<Member, String>,
    ) -> Result<Algorithms, String> {
        for (collective, path) in std::mem::take(&mut self.files) {
            let member = read(&path)?;
            let performed = collective_of_given(member)?;
            if let Some(wanted) = collective.filter(|wanted| wanted.with_root(0) != performed) {
                return Err(format!(
                    "{path} is a schedule of {}, not of {}",
                    performed.name(),
                    wanted.name()
                ));
            }
            add(&mut self.wanted, performed, member);
        }
        Ok(self)
    }

    /// The same with given schedules that compete with the catalogue.
    pub fn beside(mut self, members: impl IntoIterator<Item = Member>) -> Result<Algorithms, String> {
        for member in members {
            add(&mut self.beside, collective_of_given(member)?, member);
        }
        Ok(self)
    }

    /// The given schedules that compete for `collective` with the catalogue.
    pub(super) fn given(&self, collective: Collective) -> &[Member] {
        self.beside.get(collective.name()).map_or(&[], Vec::as_slice)
    }

    /// The algorithms that are wanted for `collective`, whatever its root; a family includes all its members. Empty
    /// where any algorithm may be used that is not [excluded](Algorithms::excludes).
    pub fn preferred(&self, collective: Collective) -> &[Member] {
        self.wanted.get(collective.name()).map_or(&[], Vec::as_slice)
    }

    /// Whether `member` must not be used for `collective`.
    pub fn excludes(&self, collective: Collective, member: &Member) -> bool {
        self.excluded.get(collective.name()).is_some_and(|all| all.iter().any(|e| e.covers(member)))
    }
}

/// Splits a list into its collective and its names: `allreduce:ring,swing` has a collective, `ring,swing` and
/// `generalized:2` have none.
fn split_collective(part: &str) -> Result<(Option<Collective>, &str), String> {
    let Some((first, names)) = part.split_once(':') else { return Ok((None, part)) };
    let is_member = |name: &str| {
        let bare = name.trim().trim_start_matches('^').trim();
        algorithms::find(bare).is_ok() || bare == given::NAME || FILE.strip_suffix(':') == Some(bare)
    };
    let begins_list = || first.split(',').next_back().is_some_and(is_member);
    match first.trim().parse::<Collective>() {
        Ok(collective) => Ok((Some(collective), names)),
        Err(_) if begins_list() => Ok((None, part)),
        Err(unknown) => Err(unknown.to_string()),
    }
}

fn add(lists: &mut MemberLists, collective: Collective, member: Member) {
    let list = lists.entry(collective.name()).or_default();
    if !list.contains(&member) {
        list.push(member);
    }
}

/// The collective of a given schedule. One with a root performs it for that root only, so it cannot be chosen for all.
fn collective_of_given(member: Member) -> Result<Collective, String> {
    let schedule = given::schedule(member).ok_or_else(|| format!("{member} is no given schedule"))?;
    match schedule.collective.root() {
        None => Ok(schedule.collective),
        Some(root) => Err(format!(
            "schedule {:?} has rank {root} as its root, so it cannot be chosen for every call; name it in calls with that root, as \
             algorithm=",
            schedule.name
        )),
    }
}

fn not_offered(algorithm: &str, collective: Collective) -> String {
    let others = algorithms::catalogue().filter(|a| a.offer(collective).is_some());
    let others = others.map(|a| a.name).collect::<Vec<_>>().join(", ");
    format!("{algorithm} performs no {}; choose among {others}", collective.name())
}
