"""What `check_faults.py` and `soak.py` are made of: ranks forked from one process, and calls with known results.

A package of the tools, not of ringroad. It reads ringroad's public API only.
"""
