"""Read what daemons store of LLDP, as plain values: nothing here opens a file or a connection."""
