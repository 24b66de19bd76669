"""Samples of counters as values and bytes: encode, decode, topics, recordings."""
