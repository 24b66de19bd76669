"""Flags of a direction of a TCP connection, which `elements.segments` sets.

The direction of the replies; a reply was seen; the handshake is complete; a FIN or RST was seen; a FIN of the opener
was seen; one of the other side; both, or a RST; by side: its next sequence number is known; a FIN of it is behind a
gap. Both directions have the same flags except for REPLY.
"""

REPLY, SEEN_REPLY, ESTABLISHED, CLOSING = 1 << 0, 1 << 2, 1 << 3, 1 << 4
FIN_OPENER, FIN_REPLIER, CLOSED = 1 << 8, 1 << 9, 1 << 10
KNOWN_OPENER, KNOWN_REPLIER, AHEAD_OPENER, AHEAD_REPLIER = (1 << bit for bit in range(24, 28))
NUMBER_FLAGS = KNOWN_OPENER | KNOWN_REPLIER | AHEAD_OPENER | AHEAD_REPLIER
"""The flags that concern sequence numbers alone."""
