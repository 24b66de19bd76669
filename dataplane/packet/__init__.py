"""Packet headers, one module per protocol: field offsets, and how they are read, checked and written."""
