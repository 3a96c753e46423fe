"""Emulated networks on this machine: hosts that are namespaces, joined by cables of a given rate along a topology's
links.

`wiring` reads hosts, cables and routes off a topology; `namespaces` makes hosts; `network` puts them together, and
cuts and slows cables; `testbed` runs ranks there.
"""
