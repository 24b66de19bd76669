"""Queue pairs that spray their packets over a set of paths."""
