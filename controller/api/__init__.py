"""The gRPC edge: translate in, post, wait, translate out. It decides nothing."""
