"""Imports every module of ringroad. Prints which of them lack what, and all that is loaded."""

import importlib
import json
import pkgutil
import sys

import ringroad

missing = {}
for module in pkgutil.walk_packages(ringroad.__path__, "ringroad.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            missing[module.name] = error.name
print(json.dumps([missing, sorted({name.partition(".")[0] for name in sys.modules})]))
