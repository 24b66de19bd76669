"""Map paths to RoCEv2 UDP source ports and back: port tables, pinned flows, reverse paths."""
