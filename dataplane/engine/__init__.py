"""Bursts of packets through a graph of elements, run to completion, each packet sent, punted or counted as dropped."""
