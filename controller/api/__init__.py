"""Serve gRPC: translate requests, post events, wait, translate replies. Decides nothing."""
