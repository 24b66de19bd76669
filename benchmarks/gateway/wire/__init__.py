"""Packets over veth pairs: the processor time of each forwarder, measured on equal topologies."""
