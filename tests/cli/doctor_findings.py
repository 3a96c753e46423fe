"""What the tests of `ringroad doctor` compare findings with."""

from ringroad.doctor import Finding


def check(found: Finding, verdict: str, *words: str) -> None:
    """The finding has this verdict, and says these words in its text or remedy."""
    assert found.verdict == verdict, found
    assert all(word in f"{found.found} {found.remedy}" for word in words), found
