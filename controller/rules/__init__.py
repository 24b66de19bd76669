"""Plan to switch rules, as values: compile, diff, order, trace.

Knows nothing of how a path was chosen, or of how bytes are made of a rule.
"""
