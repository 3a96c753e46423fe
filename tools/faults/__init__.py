"""Shared parts of `check_faults.py` and `soak.py`: ranks forked from one process, and calls with known results.

This package belongs to the tools, not to ringroad. It uses ringroad's public API only.
"""
