"""Spread flows over path sets: the template of a job, its exceptions and weights, and what other sets would do."""
