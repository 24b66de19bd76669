"""Packet ports: kernel rings, memory and pcap files, behind one burst interface."""
