"""What the states of gateway and balancer have in common: fragments, accounts, rate limits, seed, journal.

All zeros is the initial state. Both have these arrays by the same names; a program adds arrays of its own, and words
of `counts` from FIRST_OWN_WORD on.
"""

from typing import Any, Protocol

import numpy as np

from heddle.dataplane.config.limit import MAX_VPCS
from heddle.dataplane.elements.memory.buckets import index_slots
from heddle.dataplane.jit import Ints, Rows, row_type

ACCOUNT = row_type(
    "about",  # the table, or public address and protocol (`shares`)
    "vni",
    "count",
)
"""What a VPC uses of one table or of the ports of one public address, or what an endpoint uses of ports."""

FRAGMENT = row_type(
    "source_hi",
    "source_lo",
    "target_hi",
    "target_lo",
    "identification",  # a packet's `fragment_id`
    "vni",  # + 1; 0 for a free row
    "incarnation",  # of that VPC, 0 for none
    "protocol",
    "ports",
    "hash",
    "first_bytes",  # payload of the first fragment; later ones must not overlap it
    "seen_ns",
    "covered",  # exclusive or of the hashes of both ends of each fragment that came: inner ends cancel out
    "whole_bytes",  # payload of the whole packet, known from its last fragment on; else 0
    "account",  # its VPC's account of fragments (`shares`)
)
"""A packet whose first fragment has arrived."""

RECORD = row_type(
    "what",  # UPDATED, ENDED or GAVE_WAY
    "source_hi",  # the opener's row
    "source_lo",
    "target_hi",
    "target_lo",
    "key",
    "new_source_hi",
    "new_source_lo",
    "new_target_hi",
    "new_target_lo",
    "new_ports",
    "out_vni",
    "flags",
    "mapped",  # bit 0: a NAT mapping translates its source; bit 1: the source of the replies
    "idle_ns",  # since its last packet: the clocks of two machines cannot be compared
    "expected_opener",  # a gateway's TCP numbers (`gateway.memory.state.CONNECTION`); 0 for unknown
    "expected_replier",
    "source_incarnation",  # what its sides belong to, and the generation of networks that decided so; 0 of a balancer
    "target_incarnation",
    "decided_at",
)
"""The state of a connection, as it is sent to the partner. A field that is added is the last, and 0 means unknown: with
a partner of an earlier version records are exchanged without it (`control.pair.copying`)."""
FIRST_RECORD_BYTES = 15 * 8
"""Size of a record in the first version."""
UPDATED, ENDED, GAVE_WAY = 1, 2, 3

JOURNAL_ROWS = 1 << 13
PUNT_DUES = 1 << 15

JOURNAL_ON, JOURNAL_HEAD, JOURNAL_TAIL, JOURNAL_LOST, RESEND_LEFT = range(5)
"""Words of `counts`: a partner is attached; records written, read, and lost for lack of room; rows of the connection
table still to be sent in full."""
SEED, PARTNER_REFUSED = 5, 6
"""The secret seed of hashes and port choices, which never changes; records of the partner that were refused."""
ACCOUNTS_FREED, ACCOUNTS_USED, FRAGMENTS_HELD, FRAGMENTS_AGED_NS, FRAGMENTS_NEXT = range(7, 12)
"""Accounts: freed rows, and rows ever used; packets with stored fragments; when ageing last checked fragments, and the
slot that it checks next."""
FOLLOWED_NS = 12
"""When the first fragment came of the packet whose later fragment `fragments.follow` found last."""
FIRST_OWN_WORD, COUNTS = 16, 48


class Memory(Protocol):
    """The part of either state that shared elements need, as a type for the checker."""

    @property
    def counts(self) -> Ints:
        """Words, by the indices above."""

    @property
    def fragments(self) -> Rows:
        """FRAGMENT rows, in buckets."""

    @property
    def accounts(self) -> Rows:
        """ACCOUNT rows."""

    @property
    def account_index(self) -> Ints:
        """Index of the accounts (`buckets`)."""

    @property
    def freed_accounts(self) -> Ints:
        """Stack of the freed ones."""


def layout(fragments: int, others: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each array, by name, for `fragments` packets; `others` is a bound of other accounts."""
    word = np.dtype(np.int64)
    accounts = 1 << (others + min(fragments, MAX_VPCS)).bit_length()
    return {
        "fragments": ((max(fragments, 8),), FRAGMENT),
        "journal": ((JOURNAL_ROWS,), RECORD),
        "counts": ((COUNTS,), word),
        "punt_dues": ((PUNT_DUES,), word),
        "accounts": ((accounts,), ACCOUNT),
        "account_index": ((index_slots(accounts),), word),
        "freed_accounts": ((accounts,), word),
    }
