//! How much memory is still available. The kernel promises more than there is, and kills processes that use it.

use std::fs::read_to_string;
use std::path::Path;

/// The memory in bytes that the machine has left, or less if a control group of this process has less left.
/// `usize::MAX` if the kernel tells nothing.
pub(super) fn available() -> usize {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| {
        let bytes = |key| field(&text, key).map(|kib| kib.saturating_mul(1024));
        Some(bytes("MemAvailable:")? + bytes("SwapFree:").unwrap_or(0))
    });
    let groups =
        read_to_string("/proc/self/cgroup").ok().map(|text| groups(&text, Path::new("/sys/fs/cgroup")));
    machine.into_iter().chain(groups).min().unwrap_or(usize::MAX)
}

/// The names of a control group's files of its limit and its use, and the prefix of the keys of cached files.
type CgroupNames = [&'static str; 3];
const VERSION_1: CgroupNames = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_"];
const VERSION_2: CgroupNames = ["memory.max", "memory.current", ""];

/// The memory in bytes that the control groups leave, from the innermost that `/proc` names up to `root`.
fn groups(text: &str, root: &Path) -> usize {
    let all = text.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(":/")?;
        let (root, names) = match controllers {
            "" => (root.to_owned(), VERSION_2),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), VERSION_1),
            _ => return None,
        };
        let inner = root.join(path);
        inner
            .ancestors()
            .take_while(|path| path.starts_with(&root))
            .filter_map(|path| left(path, names))
            .min()
    });
    all.min().unwrap_or(usize::MAX)
}

/// The memory in bytes that one group leaves, if it has a limit. Cached files count as free.
fn left(group: &Path, [limit, used, prefix]: CgroupNames) -> Option<usize> {
    let read = |name| read_to_string(group.join(name)).ok();
    let number = |name| read(name)?.trim().parse::<usize>().ok();
    let (limit, used) = (number(limit)?, number(used)?);
    let stat = read("memory.stat").unwrap_or_default();
    let cached =
        ["inactive_file", "active_file"].map(|key| field(&stat, &format!("{prefix}{key}")).unwrap_or(0));
    Some(limit.saturating_sub(used.saturating_sub(cached.iter().sum())))
}

/// The number after the word `key` at the beginning of a line.
fn field(text: &str, key: &str) -> Option<usize> {
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut words| (words.next()? == key).then(|| words.next()?.parse().ok())?)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_machine_tells() {
        assert!((1 << 20..1 << 50).contains(&available()), "{}", available());
    }

    #[test]
    fn the_narrowest_control_group_counts() {
        let root = std::env::temp_dir().join(format!("ringroad-groups-{}", std::process::id()));
        let write = |group: &str, files: &[(&str, &str)]| {
            let folder = root.join(group);
            fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        };
        write("", &[]);
        write(
            "a",
            &[
                ("memory.max", "1000\n"),
                ("memory.current", "700\n"),
                ("memory.stat", "anon 5\ninactive_file 50\n"),
            ],
        );
        write("a/b", &[("memory.max", "max\n"), ("memory.current", "600\n")]);
        write("a/b/c", &[("memory.max", "5000\n"), ("memory.current", "6000\n")]);
        write("memory/x", &[("memory.limit_in_bytes", "900"), ("memory.usage_in_bytes", "800")]);
        write("memory", &[("memory.limit_in_bytes", "2000"), ("memory.usage_in_bytes", "1500")]);
        write("memory", &[("memory.stat", "inactive_file 1\ntotal_inactive_file 30\n")]);
        let least = |text: &str| groups(text, &root);
        let found = ["0::/", "0::/a\n", "1:x:/\n0::/a/b\n", "0::/a/b/c", "0::/gone", ""].map(least);
        let older =
            ["4:memory:/", "0::/\n4:cpu,memory:/x\n5:pids:/x", "4:memory:/out/of/sight", "4:memoryless:/x"]
                .map(least);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [usize::MAX, 350, 350, 0, usize::MAX, usize::MAX]);
        assert_eq!(older, [530, 100, 530, usize::MAX]);
    }
}
