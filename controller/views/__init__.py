"""Compute views of a frozen state: loads, explanations, congestion, event lines, offline plans."""
