"""What each VPC has of the tables that fill by traffic, so that one tenant's flood leaves room for all others.

A VPC gets more of a table as long as what it has is less than a multiple of what is free (dynamic thresholds:
Choudhury, Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM ToN 6 (2), 1998). With
a share of s %, the multiple being s / (100 - s), one VPC alone may fill s % of a table; whoever comes later finds some
of what is left, however many there are that want all. What lives is never pushed out for it.

An account is a row (about, VNI, count): about CONNECTIONS, MAPPINGS or FRAGMENTS, or the ports of a public address, by
PORTS + (`address << 8 | protocol`), which is none of the others whatever address a partner names. It is there while it
counts something. What comes from no VPC has the account of OUTSIDE.
"""

from dataplane.engine.hashing import mixed2
from dataplane.gateway.memory.buckets import ROW, SLOTS, first_slot, free_row, put, take_out, take_row
from dataplane.gateway.memory.state import ACCOUNTS_BACK, SEED, State
from dataplane.jit import element, inline

CONNECTIONS, MAPPINGS, FRAGMENTS, PORTS = range(4)
NO_ACCOUNT, LIMITED = -1, -2
"""In place of an account: there is no row for it; the VPC has its share."""
WHOLE_PERCENT = 100


@inline
def _hash_of(state: State, about: int, vni: int) -> int:
    return mixed2(about ^ state.counts[SEED], vni)


@inline
def _find(state: State, hashed: int, about: int, vni: int) -> int:
    for bucket in range(2):
        at = first_slot(state.account_index, hashed, bucket)
        for slot in range(at, at + SLOTS):
            entry = state.account_index[slot]
            if entry == 0:
                break
            row = (entry & ROW) - 1
            if state.accounts[row].about == about and state.accounts[row].vni == vni:
                return row
    return NO_ACCOUNT


@element
def charge(state: State, about: int, vni: int, free: int, percent: int) -> int:
    """Count one more for a VPC, of a table with so much free; return its account, or NO_ACCOUNT or LIMITED."""
    hashed = _hash_of(state, about, vni)
    account = _find(state, hashed, about, vni)
    count = 0 if account == NO_ACCOUNT else state.accounts[account].count
    if percent < WHOLE_PERCENT and count * (WHOLE_PERCENT - percent) >= free * percent:
        return LIMITED
    if account == NO_ACCOUNT:
        account = take_row(state.accounts_back, state.counts, ACCOUNTS_BACK)
        if account == NO_ACCOUNT:
            return NO_ACCOUNT
        if not put(state.account_index, hashed, account):
            free_row(state.accounts_back, state.counts, ACCOUNTS_BACK, account)
            return NO_ACCOUNT
        state.accounts[account].about = about
        state.accounts[account].vni = vni
        state.accounts[account].count = 0
    state.accounts[account].count += 1
    return account


@element
def discharge(state: State, account: int) -> None:
    """Count one less."""
    state.accounts[account].count -= 1
    if state.accounts[account].count == 0:
        take_out(
            state.account_index, _hash_of(state, state.accounts[account].about, state.accounts[account].vni), account
        )
        free_row(state.accounts_back, state.counts, ACCOUNTS_BACK, account)
