"""The packet-processing elements of a gateway's graph."""
