"""Compile a gateway's configuration into the tables of one generation. Pure."""
