"""Ports: frames in and out of compiled code, by AF_XDP, by AF_PACKET rings, in memory, from and to pcap files."""
