"""Packet ports on AF_XDP sockets, their kernels and the XDP program that feeds them."""
