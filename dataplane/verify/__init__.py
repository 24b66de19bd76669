"""Formal verification of isolation: compute reachability from installed tables and compare it with the intent."""
