"""How much of virtual networks the program takes on: so that no table of a gateway grows without bound."""

MAX_VPCS = 16_384
MAX_ENDPOINTS = 1_000_000
"""Of all VPCs together."""
MAX_ENDPOINTS_OF_A_VPC = 200_000
MAX_SUBNETS = 256
MAX_RULES = 1_024
"""Of one VPC's security group: a packet that opens a connection is held against each of them."""
MAX_DIRECT_CONNECTS = 64
MAX_FLOATING_IPS = 4_096
MAX_PEERINGS_OF_A_VPC = 128
MAX_BORDER_RULES = 1_024
HIGHEST_VNI = (1 << 24) - 1
"""RFC 7348, 5."""
HIGHEST_VLAN = 4_094
"""IEEE 802.1Q: 0 and 4,095 are no VLANs."""
LAST_PORT = 65_535
LONGEST_NAME = 128
