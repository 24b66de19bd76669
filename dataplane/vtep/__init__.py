"""A host's half of a VPC: the kernel's VXLAN device or Open vSwitch, programmed by what the controller says."""
