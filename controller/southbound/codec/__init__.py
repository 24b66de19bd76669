"""Convert between OpenFlow 1.3 bytes and values: check, decode, encode, templates."""
