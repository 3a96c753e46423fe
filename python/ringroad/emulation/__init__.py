"""Emulated networks on this machine: hosts are namespaces, joined by cables of a given rate along a topology's links.

`wiring` reads hosts, cables and routes from a topology; `namespaces` makes hosts; `network` joins them, and cuts and
slows cables; `testbed` runs ranks on them.
"""
