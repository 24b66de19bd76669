"""Find by probes that expire in the fabric which path a RoCEv2 source port takes on switches that hash."""
