"""Grids and graphs of ranks, exchanges of borders, and memory that the ranks of a host share."""
