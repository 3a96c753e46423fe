"""Emulated networks on this machine: hosts are namespaces, joined by cables of a given rate along a topology's links.

`wiring` reads hosts, cables and routes from a topology, and `placing` says which ranks run on which host; `namespaces`
makes hosts. `fabric` lays cables; packets then follow the topology's routes (`routed`), or switches are bridges
(`bridged`). `delay` and `traffic` start two programs, `relay` and `sender`: one delays packets, the other sends some.
`telling` is what ranks know of it. `network` is all of it, `events` change it at given times, and `testbed` runs ranks
on it.
"""
