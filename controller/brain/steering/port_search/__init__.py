"""Steering by the hashes of switches: which flows need a probed source port, and what follows from the ports found."""
