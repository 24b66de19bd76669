"""Other ways to choose paths, written by us after their papers: what the planner is measured beside.

Each takes a `Problem` and returns an `Answer`, so that one evaluation serves all.
"""
