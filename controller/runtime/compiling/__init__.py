"""Compile rules in a process of its own."""
