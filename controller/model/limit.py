"""Define size limits for files, the gRPC API and tests; docs/files.md documents them."""

MAX_SWITCHES = 20_000
MAX_NICS = 1_000_000
MAX_CABLES = 4_000_000
MAX_FLOW_PLANS = 2_000_000
MAX_PORT_NUMBER = 0xFEFF
"""OpenFlow 1.3 has 32-bit ports; Open vSwitch assigns 1..0xfeff (ofp-port ranges of lib/ofp-util)."""
MAX_NIC_BPS = 4 * 10**12
"""Keeps the sum of all flow plans' demands below 2^63."""
MAX_CABLE_BPS = 10**15
MAX_LEASE_MS = 2**63 - 1
MAX_GPU_MILLI = 1_000_000
MAX_QPS_PER_FLOW = 16
MAX_PRIORITY = 7
LOWEST_FIXED_PORT = 49152
HIGHEST_FIXED_PORT = 65535
