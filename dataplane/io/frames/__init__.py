"""Frame memory: the arena, its pool of buffers, their layout, and ports that live in memory alone."""
