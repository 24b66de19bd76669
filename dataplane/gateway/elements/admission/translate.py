"""Choose the translated addresses and ports of a connection: floating IPs in both directions, NAT out and back in.

A mapping is allocated last, when nothing else can refuse the connection: a refused connection changes no state.
"""

from heddle.dataplane.elements.memory.shares import LIMITED, WHOLE_PERCENT
from heddle.dataplane.engine.burst import V4_PREFIX
from heddle.dataplane.engine.flow_key import VNI
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.memory.incarnations import draft_of
from heddle.dataplane.gateway.memory.mappings import (
    ENDPOINT_LIMITED,
    NO_MAPPING,
    ROCE_PORT,
    has_ports,
    mapping_for,
    mapping_from,
)
from heddle.dataplane.gateway.memory.state import BORDER, FLOATING, SOURCE, TARGET, TRANSLATED, State
from heddle.dataplane.jit import Row, element, inline
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.packet.transport import TCP, UDP
from heddle.dataplane.tables.lookup import row1, row2, row3
from heddle.dataplane.tables.schema import (
    EMPTY,
    FLOATING_ENDPOINT,
    FLOATING_INCARNATION,
    FLOATING_PUBLIC,
    FLOATING_VNI,
    OUTSIDE,
    OWN_ENDPOINT_PERCENT,
    OWN_NAT_FIRST,
    OWN_NAT_LAST,
    OWN_PORTLESS,
    OWN_VPC_PERCENT,
    PORT_ADDRESS,
    PROVIDER,
    Tables,
)

ACCEPTED = -1
WANTED = -2
"""In place of a mapping: find or create one."""
DCCP, AUTHENTICATION, UDP_LITE = 33, 51, 136


@inline
def is_roce(forward: Row) -> bool:
    """Return whether either port is RoCEv2's: a reply has it as its destination port."""
    ports = forward.key >> 32
    return forward.key >> 24 & 0xFF == UDP and (ports & 0xFFFF == ROCE_PORT or ports >> 16 & 0xFFFF == ROCE_PORT)


@inline
def is_ours(tables: Tables, address: int) -> bool:
    """Return whether an address is a public address of this gateway's VPCs."""
    return row1(tables.floating_in, address & WORD) != EMPTY or row1(tables.nat_in, address & WORD) != EMPTY


@inline
def _is_translatable(protocol: int) -> bool:
    """Return whether a protocol can be translated: its checksum covers no addresses, or can be updated."""
    return protocol != DCCP and protocol != AUTHENTICATION and protocol != UDP_LITE


@element
def translate_source(tables: Tables, state: State, forward: Row, vpc: int, kind: int, by_mapping: bool) -> int:
    """Write the translated source, with mapping WANTED for a shared address; return ACCEPTED or the drop reason.

    `by_mapping`: the connection has a mapping, and keeps it though its endpoint has a floating IP by now.
    """
    protocol = forward.key >> 24 & 0xFF
    if forward.source_lo >> 32 != 0xFFFF or forward.source_hi != 0 or not _is_translatable(protocol):
        return Drop.NO_NAT.value
    if kind == PROVIDER:
        public = tables.ports[tables.next_hops[forward.next_hop].port, PORT_ADDRESS]
    else:
        floating = row2(tables.floating_out, forward.key & VNI, forward.source_lo & WORD)
        if floating != EMPTY and not by_mapping:
            state.incarnations[draft_of(state), SOURCE] = tables.floating[floating, FLOATING_INCARNATION]
            forward.new_source_lo = V4_PREFIX | tables.floating[floating, FLOATING_PUBLIC]
            forward.flags |= TRANSLATED | FLOATING
            return ACCEPTED
        public = tables.vpcs[vpc].nat_source
    if public == 0:
        return Drop.NO_NAT.value
    forward.new_source_lo = V4_PREFIX | public
    forward.flags |= TRANSLATED
    forward.mapping = WANTED
    return ACCEPTED


@element
def translate_target(tables: Tables, state: State, forward: Row, back: Row) -> int:
    """Write the endpoint behind a public address and its next hop; return ACCEPTED or the drop reason."""
    public, ports, protocol = forward.target_lo & WORD, forward.new_ports, forward.key >> 24 & 0xFF
    floating, belongs_to = row1(tables.floating_in, public), OUTSIDE
    if floating != EMPTY:
        belongs_to = tables.floating[floating, FLOATING_INCARNATION]
        inside, port = tables.floating[floating, FLOATING_ENDPOINT], ports & 0xFFFF
        forward.out_vni = tables.floating[floating, FLOATING_VNI]
        forward.flags |= FLOATING
    else:
        mapping = NO_MAPPING
        if protocol in (TCP, UDP) and row1(tables.nat_in, public) != EMPTY:
            mapping = mapping_from(state, public, ports & 0xFFFF, protocol)
        if mapping == NO_MAPPING:
            return Drop.NO_MAPPING.value
        inside, port = state.mappings[mapping].inside, state.mappings[mapping].key >> 32 & 0xFFFF
        forward.out_vni = state.mappings[mapping].key & VNI
        belongs_to = state.mappings[mapping].incarnation
        back.mapping = mapping
    vpc = row1(tables.vnis, forward.out_vni)
    if vpc == EMPTY or (floating == EMPTY and not _is_mapped_for(tables, vpc, public, belongs_to)):
        return Drop.NO_MAPPING.value
    state.incarnations[draft_of(state), TARGET] = belongs_to
    forward.next_hop = row3(tables.endpoints, forward.out_vni, 0, V4_PREFIX | inside)
    if forward.next_hop == EMPTY or not _is_translatable(protocol):
        return Drop.NO_MAPPING.value
    if is_roce(forward) or (protocol == UDP and port == ROCE_PORT):
        return Drop.ROCE_NOT_TRANSLATED.value
    forward.new_target_lo = V4_PREFIX | inside
    forward.new_ports = ports & ~0xFFFF | port
    forward.flags |= TRANSLATED
    return ACCEPTED


@inline
def _is_mapped_for(tables: Tables, vpc: int, public: int, incarnation: int) -> bool:
    """Whether a mapping is of the VPC that has its VNI now, and to that VPC's address."""
    return tables.vpcs[vpc].nat_source == public and tables.vpc_incarnations[vpc] == incarnation


@element
def take_mappings(tables: Tables, state: State, forward: Row, back: Row) -> int:
    """Reference the mappings of a draft, and create the WANTED one; return ACCEPTED or the drop reason."""
    if forward.mapping == WANTED:
        key = (forward.key >> 48 & 0xFFFF) << 32 | forward.key & WORD
        public = forward.new_source_lo & WORD
        first, last, percent = tables.own[OWN_NAT_FIRST], tables.own[OWN_NAT_LAST], tables.own[OWN_VPC_PERCENT]
        of_ports = percent
        if not forward.flags & BORDER:
            vpc = tables.vpcs[row1(tables.vnis, forward.key & VNI)]
            first, last = vpc.nat_first, vpc.nat_last
            of_ports = percent if vpc.nat_shared else WHOLE_PERCENT
        if not has_ports(forward.key >> 24 & 0xFF):
            first, last = 1 - tables.own[OWN_PORTLESS], 0
        mapping = mapping_for(
            state, forward.source_lo & WORD, key, public, first, last, -1, percent, of_ports,
            tables.own[OWN_ENDPOINT_PERCENT], state.incarnations[draft_of(state), SOURCE],
        )  # fmt: skip
        if mapping < 0:
            forward.mapping = NO_MAPPING
            if mapping == ENDPOINT_LIMITED:
                return Drop.ENDPOINT_PORTS_LIMITED.value
            return Drop.PORTS_LIMITED.value if mapping == LIMITED else Drop.PORTS_EXHAUSTED.value
        forward.mapping = mapping
        port = state.mappings[forward.mapping].public_port
        forward.new_ports = port << 16 | forward.new_ports & 0xFFFF
    if back.mapping != NO_MAPPING:
        state.mappings[back.mapping].references += 1
    return ACCEPTED
