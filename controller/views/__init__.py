"""Derive what readers need from a frozen state: loads, explanations, congestion, event lines, offline plans."""
