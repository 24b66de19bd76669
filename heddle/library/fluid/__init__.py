"""Completion times of flows by a max-min fluid model."""
