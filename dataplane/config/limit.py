"""Limits of virtual networks; they bound the size of a gateway's tables."""

MAX_VPCS = 16_384
MAX_ENDPOINTS = 1_000_000
"""In all VPCs together."""
MAX_ENDPOINTS_OF_A_VPC = 200_000
MAX_SUBNETS = 256
MAX_RULES = 1_024
"""Per VPC; a packet that opens a connection is compared with each rule."""
MAX_DIRECT_CONNECTS = 64
MAX_FLOATING_IPS = 4_096
MAX_PEERINGS_OF_A_VPC = 128
MAX_BORDER_RULES = 1_024
MAX_VNI = (1 << 24) - 1
"""RFC 7348, 5."""
MAX_VLAN = 4_094
"""IEEE 802.1Q: VLAN ids 0 and 4095 are reserved."""
LAST_PORT = 65_535
MAX_NAME_LENGTH = 128
MAX_LOAD_BALANCERS = 1 << 10
MAX_BACK_ENDS = 1 << 14
"""Of all load balancers together; both are rows of a balancer's tables."""
MAX_BACK_ENDS_OF_ONE = 1_000
MAX_WEIGHT = 1_000
