"""Compile the rules that every switch holds without any job: an even, deterministic ECMP by source port."""
