"""How much of virtual networks the program takes on: so that no table of a gateway grows without bound."""

MOST_VPCS = 16_384
MOST_ENDPOINTS = 1_000_000
"""Of all VPCs together."""
MOST_ENDPOINTS_OF_A_VPC = 200_000
MOST_SUBNETS = 256
MOST_RULES = 1_024
"""Of one VPC's security group: a packet that opens a connection is held against each of them."""
MOST_DIRECT_CONNECTS = 64
MOST_FLOATING_IPS = 4_096
MOST_PEERINGS_OF_A_VPC = 128
MOST_BORDER_RULES = 1_024
HIGHEST_VNI = (1 << 24) - 1
"""RFC 7348, 5."""
HIGHEST_VLAN = 4_094
"""IEEE 802.1Q: 0 and 4,095 are no VLANs."""
LAST_PORT = 65_535
LONGEST_NAME = 128
