"""What may be wrong with the headers of a packet: one of these numbers, or the positive answer that was asked for."""

SOUND = 0
SHORT = -1
"""Ends, or its first buffer does, before its headers do."""
BAD_HEADER = -2
"""An IP header that no sound sender makes: version, lengths, checksum, a source route, a chain without an end."""
BAD_TRANSPORT = -3
BAD_FRAGMENT = -4
MARTIAN = -5
"""A source or target that no packet on a wire has."""
