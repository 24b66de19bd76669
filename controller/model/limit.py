"""Define size limits for files, the gRPC API and tests; docs/files.md documents them."""

MAX_SWITCHES = 20_000
MAX_NICS = 1_000_000
MAX_CABLES = 4_000_000
MAX_PLANES = 64
MAX_FLOW_PLANS = 2_000_000
MAX_RANK_PAIRS = 4_194_304
"""Pairs of ranks of one job that communicate, also inside a host, where they need no flow plan."""
MAX_PORT_NUMBER = 0xFEFF
"""OpenFlow 1.3 has 32-bit ports; Open vSwitch assigns 1..0xfeff (ofp-port ranges of lib/ofp-util)."""
MAX_NIC_BPS = 4 * 10**12
"""Keeps the sum of all flow plans' demands below 2^63."""
MAX_CABLE_BPS = 10**15
MAX_LEASE_MS = 2**63 - 1
MAX_GPU_MILLI = 1_000_000
MAX_QPS_PER_FLOW = 16
MAX_PATHS_PER_FLOW = 256
"""The entries that a NIC's list of paths holds."""
MAX_PRIORITY = 7
LOWEST_FIXED_PORT = 49152
HIGHEST_FIXED_PORT = 65535

MAX_MESSAGE_BYTES = 16 << 20
"""A message to the gRPC API: a VPC of 200,000 endpoints with IPv6 addresses has 15.8 MB."""
MAX_REQUEST_BYTES = 8 << 20
"""A job request to the gRPC API, which has these limits too; files may be larger."""
MAX_REQUEST_RANKS = 262_144
MAX_REQUEST_COLLECTIVES = 16_384
MAX_REQUEST_MEMBERS = 1_048_576
MAX_REQUEST_ENDS = 131_072
"""Pairs and flows that are listed one by one; other kinds of collective have more flows with fewer bytes."""
MAX_REQUEST_PHASES = 4_096
"""Each phase is routed by a search of its own: 4,096 different ones of 32 flows take some 3 s on 2,048 NICs."""
MAX_REQUEST_PINS = 16_384
"""Flow plans that a rule on each switch pins: those with a fixed port, and all of a job with PIN steering."""
