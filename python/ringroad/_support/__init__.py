"""Helpers that know nothing of communication: numbers with units, tables, files, pictures, processes."""
