"""PyTorch's own tests of backends, run over ringroad.

    python tests/torch_backend/conformance.py [--backend gloo] [--brief] [-k part of a name]

Torch's wheel contains them (torch.testing._internal.distributed.distributed_test). They are written for the backends
that torch knows: while the module is imported, it compares the backend's name to decide which tests to run. So the
module gets a name that is ringroad's, but is equal to gloo's, whose tests are for CPU tensors, and to mpi's, which has
some tests that gloo is excluded from. Prints one line of JSON per test: name, outcome, seconds, text.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import re
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TextIO
from unittest import mock

RANKS = 3
SECONDS = 60
"""The timeout of a test."""
SUITE = "torch.testing._internal.distributed.distributed_test"
VARIANT = re.compile(r"_group|product|_min|_max|complex|profiler|twice|_with_|monitored_barrier_")
"""In names of tests that differ from others in a group, an operation or a type only, or that wait for timeouts."""


class Name(str):
    """The backend's name, which is also equal to the names of the backends whose tests should run."""

    played = ("gloo", "mpi")

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) or other in Name.played

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        """Equal to the hash of gloo's name, so that sets which contain gloo seem to contain this name."""
        return hash("gloo")


def load_suite(folder: Path, backend: str) -> ModuleType:
    for name in ("barrier", "test_dir"):
        (folder / name).mkdir()
    os.environ |= {
        "BACKEND": backend,
        "WORLD_SIZE": str(RANKS),
        "INIT_METHOD": f"file://{folder}/shared_init_file",
        "TEMP_DIR": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    import ringroad.torch  # noqa: F401
    import torch
    import torch.testing._internal.common_distributed as common

    common.TIMEOUT_DEFAULT = SECONDS
    common.DistTestCases.backend_feature["plugin"].add("ringroad")
    # Below 8 ranks, torch would skip tests that need only 3.
    common.skip_if_small_worldsize = lambda test: test
    if not torch.cuda.is_available():
        # Torch would start ranks, which then skip the test.
        needs = unittest.skip("needs accelerators")
        common.skip_if_no_gpu = needs
        common.skip_if_lt_x_gpu = lambda count, allow_cpu=False: (lambda test: test) if allow_cpu else needs
    # A plain dict keeps the type of the name. The module reads its settings from there when it is imported.
    with mock.patch.object(os, "environ", {**os.environ, "BACKEND": Name(backend)}):
        return importlib.import_module(SUITE)


def tests_of(suite: ModuleType) -> list[unittest.TestCase]:
    import torch.multiprocessing as multiprocessing

    class Conformance(suite.TestDistBackend, suite.DistributedTest._DistTestBase):  # type: ignore[misc, name-defined]
        def setUp(self) -> None:
            super().setUp()
            # Fork, since a spawned process imports torch for seconds.
            self._start_processes(multiprocessing.get_context("fork").Process)

    return [test for test in unittest.defaultTestLoader.loadTestsFromTestCase(Conformance) if hasattr(test, "id")]


class Report(unittest.TestResult):
    """Writes one line per test."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out
        self._start = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._start = time.monotonic()

    def _write(self, test: unittest.TestCase, outcome: str, text: str = "") -> None:
        seconds = round(time.monotonic() - self._start, 2)
        line = {"name": name_of(test), "outcome": outcome, "seconds": seconds, "text": text}
        print(json.dumps(line), file=self._out, flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._write(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._write(test, "skipped", reason)

    def addError(
        self,
        test: unittest.TestCase,
        err: tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None],
    ) -> None:
        self._write(test, "failed", f"{type(err[1]).__name__}: {err[1]}")

    addFailure = addError


def name_of(test: unittest.TestCase) -> str:
    return test.id().rpartition(".")[2]


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="ringroad", help="over another one, to compare with")
    parser.add_argument("--brief", action="store_true", help="without variants of other tests")
    parser.add_argument("-k", dest="part", default="", help="only tests with this in their name")
    options = parser.parse_args(arguments)
    # The output of the tests themselves goes to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        tests = [test for test in tests_of(load_suite(Path(folder), options.backend)) if options.part in name_of(test)]
        if options.brief:
            tests = [test for test in tests if not VARIANT.search(name_of(test))]
        for test in tests:
            test(Report(out))


if __name__ == "__main__":
    sys.exit(main())
