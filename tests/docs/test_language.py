"""The project's English: no phrase reads as translated, and no name is too short to say what it means."""

import re
import subprocess
from collections import Counter

from helpers import ROOT, sentences

PHRASES = [
    r"in earnest",
    r"may be left away",
    r"what it brings",
    r"had no finding",
    r"nobody of",
    r"stands? still",
    r"write (some|one) of",
    r"(?<=[.!] )Who(ever)? ",
    r"(?<=// )Who(ever)? ",
    r"(?<=\"\"\")Who(ever)? ",
    r"Whichever ",
]


def found(pattern, *files):
    """The lines of the project's files that have the pattern."""
    listed = subprocess.run(["git", "ls-files", *files], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        f"{file}:{number}: {line.strip()}"
        for file in listed.splitlines()
        if file != "tests/docs/test_language.py"
        for number, line in enumerate((ROOT / file).read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_no_phrase_reads_as_translated():
    assert found("|".join(PHRASES), "*.md", "*.py", "*.pyi", "*.rs", "*.js") == []


def test_functions_and_constants_say_of_what():
    assert found(r"\bfn (of|look|hear|say)\b|\bconst (PATIENCE|MOST|LOOK|LONGEST)\b", "rust/*.rs") == []


def declared(pattern, *files):
    """How many types the files declare, and the names that stand for several of them."""
    lines = found(pattern, *files)
    names = Counter(re.search(pattern, line.split(": ", 1)[1])[1] for line in lines if "/tests" not in line)
    return len(names), sorted(name for name, times in names.items() if times > 1)


def test_a_name_means_one_thing():
    """Of the types of each language at most 4 % share a name with another one."""
    for pattern, files in [
        (r"^(?:pub(?:\(\w+\))? )?(?:struct|enum|trait|type) (\w+)", "rust/*/src/*.rs"),
        (r"^class (\w+)", "python/*.py"),
    ]:
        types, twice = declared(pattern, files)
        assert types > 150 and len(twice) <= 0.04 * types, twice


def test_sentences_belong_to_tests():
    """Of errors, in `tests/sentences.txt`."""
    lost = []
    for test in sentences():
        file, _, name = test.partition("[")[0].partition("::")
        path = ROOT / "tests" / file
        if not (path.exists() and re.search(rf"def {name}\([^)]*\brefused\b", path.read_text())):
            lost.append(test)
    assert lost == [], "pytest --sentences --collect-only drops these"
