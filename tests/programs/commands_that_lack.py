"""Runs the commands that the arguments are. Prints with which status and words each is refused."""

import contextlib
import io
import json
import sys
from pathlib import Path

from ringroad import cli

Path("network.graphml").write_text("<graphml/>")
told = {}
for command in sys.argv[1:]:
    with contextlib.redirect_stderr(io.StringIO()) as errors, contextlib.redirect_stdout(io.StringIO()):
        try:
            cli.main(command.split())
        except SystemExit as end:
            told[command] = [end.code, errors.getvalue()]
print(json.dumps(told))
