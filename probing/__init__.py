"""Which path does a RoCEv2 source port take on a fabric that hashes? Probes that expire in the fabric find out."""
