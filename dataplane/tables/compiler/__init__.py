"""Compile a configuration into the tables of one generation. Pure: the same input gives the same arrays."""
