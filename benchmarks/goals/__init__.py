"""Measures ringroad beside other libraries and a plain program, and judges it by goals: `python benchmarks/goals`.

It is `ringroad bench` with three things more: the plain program (`reference`), rounds that wait until the CPUs share a
cache or share none, and a verdict (`verdict`). `record` describes the machine, and `plot` draws a record.
"""
