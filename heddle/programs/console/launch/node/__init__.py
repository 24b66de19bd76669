"""Planned source ports for all processes of a node, without a wrapper."""
