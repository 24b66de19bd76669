"""Limits on each VPC's use of the tables that traffic fills, so that one tenant's flood leaves room for all others.

A VPC may use more of a table as long as its use is below a multiple of the free space (dynamic thresholds: Choudhury,
Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM ToN 6 (2), 1998). For a share of s
% the multiple is s / (100 - s): one VPC alone may fill s % of a table, and a later VPC always finds some of the rest,
however many VPCs compete. Only entries without traffic give way to others (`reclaim`).

An account is a row (about, VNI, count). `about` is CONNECTIONS, MAPPINGS or FRAGMENTS, or, for the ports of a public
address, PORTS + (`address << 8 | protocol`), which differs from the others for any address. For the ports that one
endpoint of the VPC has it is ENDPOINT_PORTS + (`endpoint's address << 8 | protocol`). An account exists while its count
is not 0. Packets without a VPC use the account of OUTSIDE.
"""

from heddle.dataplane.elements.memory.buckets import ROW, SLOTS, first_slot, free_row, put, take_out, take_row
from heddle.dataplane.elements.memory.state import ACCOUNTS_FREED, SEED, Memory
from heddle.dataplane.engine.hashing import mixed2
from heddle.dataplane.jit import element, inline

CONNECTIONS, MAPPINGS, FRAGMENTS, PORTS = range(4)
ENDPOINT_PORTS = 1 << 48
NO_ACCOUNT, LIMITED = -1, -2
"""In place of an account: there is no free row; the VPC has reached its share."""
WHOLE_PERCENT = 100


@inline
def _hash_of(state: Memory, about: int, vni: int) -> int:
    return mixed2(about ^ state.counts[SEED], vni)


@inline
def _find(state: Memory, hashed: int, about: int, vni: int) -> int:
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
def charge(state: Memory, about: int, vni: int, free: int, percent: int) -> int:
    """Count one more entry of a VPC, in a table with `free` free entries; return its account, NO_ACCOUNT or LIMITED."""
    hashed = _hash_of(state, about, vni)
    account = _find(state, hashed, about, vni)
    count = 0 if account == NO_ACCOUNT else state.accounts[account].count
    if percent < WHOLE_PERCENT and count * (WHOLE_PERCENT - percent) >= free * percent:
        return LIMITED
    if account == NO_ACCOUNT:
        account = take_row(state.freed_accounts, state.counts, ACCOUNTS_FREED)
        if account == NO_ACCOUNT:
            return NO_ACCOUNT
        if not put(state.account_index, hashed, account):
            free_row(state.freed_accounts, state.counts, ACCOUNTS_FREED, account)
            return NO_ACCOUNT
        state.accounts[account].about = about
        state.accounts[account].vni = vni
        state.accounts[account].count = 0
    state.accounts[account].count += 1
    return account


@element
def account_of(state: Memory, about: int, vni: int) -> int:
    """Return a VPC's account, or NO_ACCOUNT."""
    return _find(state, _hash_of(state, about, vni), about, vni)


@element
def discharge(state: Memory, account: int) -> None:
    """Count one entry less."""
    state.accounts[account].count -= 1
    if state.accounts[account].count == 0:
        take_out(
            state.account_index, _hash_of(state, state.accounts[account].about, state.accounts[account].vni), account
        )
        free_row(state.freed_accounts, state.counts, ACCOUNTS_FREED, account)
