"""Faults in the headers of a packet: negative numbers, which functions return in place of their normal result."""

SOUND = 0
SHORT = -1
"""The packet, or its first buffer, ends before its headers do."""
BAD_HEADER = -2
"""An invalid IP header: version, lengths, checksum, source route, or a chain of extension headers without an end."""
BAD_TRANSPORT = -3
BAD_FRAGMENT = -4
MARTIAN = -5
"""An invalid source or target address."""
