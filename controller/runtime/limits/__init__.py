"""Limits of peers and of the process: calls, shares, descriptors, log lines, exposure."""
