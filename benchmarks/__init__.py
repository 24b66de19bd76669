"""Figures, not tests: each module's `run` prints a table and returns what it measured."""
