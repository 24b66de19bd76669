"""Peer planners, implemented after their papers, for comparison with ours.

Each takes a `Problem` and returns an `Answer`, so that one evaluation serves all.
"""
