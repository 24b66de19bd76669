"""Agents: cumulative counters of switches and NICs, read where they are and published on the bus."""
