"""The gateway's elements by number: what a node of its graph says it is, and what its outcomes are called.

    underlay  ---+
    external  ---+--> parse --> check_source --> track --hit--------------> forward --+--> rewrite --> output
    customer  ---+                                  +--miss--> admit ---------^       +--(nothing new)--^
    provider  ---+

An element drops, punts and transmits by itself; outcomes are for what goes on. The numbers are constants for kernels.
"""

UNDERLAY, EXTERNAL_SIDE, CUSTOMER_SIDE, PROVIDER_SIDE = 0, 1, 2, 3
"""Entries by side, in the order of `schema.SIDES`: is the frame for us, and which VPC is it in? The underlay's
(`underlay.underlay`) takes the outer headers off; `sides.customer`; for the other two `sides.untagged`. One outcome."""
PARSE = 4
"""Read and check the IP and transport headers. One outcome."""
CHECK_SOURCE = 5
"""Let pass only sources that may come from there. One outcome."""
TRACK = 6
"""Find the connection: HIT or MISS."""
ADMIT = 7
"""Decide about what opens a connection: route, rules, border, translation. One outcome: a next hop is known."""
FORWARD = 8
"""By next hop: for the gateway itself? TTL, and MTU where the sender has to be told. Outcomes: REWRITTEN, AS_IT_IS."""
REWRITE = 9
"""Write the connection's new addresses and ports. One outcome."""
OUTPUT = 10
"""Put the headers of the way out in front and transmit. No outcome."""

ON = 0
"""The outcome of elements that have one."""
HIT, MISS = 0, 1
REWRITTEN, AS_IT_IS = 0, 1

NAMES = (
    "underlay",
    "external",
    "customer",
    "provider",
    "parse",
    "check_source",
    "track",
    "admit",
    "forward",
    "rewrite",
    "output",
)
"""By number: what the graph calls the node of each kind."""
