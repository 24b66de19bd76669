"""gRPC: translate in, post, wait, translate out; no decisions."""
