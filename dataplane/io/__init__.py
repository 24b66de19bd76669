"""Ports: frames in and out of compiled code, by AF_XDP, by AF_PACKET rings, and in memory."""
