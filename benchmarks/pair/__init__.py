"""A pair of gateways on real wires, TCP connections through it, and what they notice when one of the two dies."""
