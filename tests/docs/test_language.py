"""The project's English: phrases that read as translated, which no text of the project has."""

import re
import subprocess

from helpers import ROOT

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


def test_no_phrase_reads_as_translated():
    files = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.pyi", "*.rs", "*.js"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    wrong = re.compile("|".join(PHRASES))
    found = [
        f"{file}:{number}: {line.strip()}"
        for file in files
        if file != "tests/docs/test_language.py"
        for number, line in enumerate((ROOT / file).read_text().splitlines(), 1)
        if wrong.search(line)
    ]
    assert found == []
