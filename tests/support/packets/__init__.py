"""Packets, wires and namespaces for tests: what is sent, carried and captured."""
