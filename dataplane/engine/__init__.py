"""The packet engine: bursts of packets, processed through a graph of elements until each has a fate."""
