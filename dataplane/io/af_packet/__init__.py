"""Packet ports on AF_PACKET: TPACKET_V3 receive rings and their kernels (packet(7))."""
