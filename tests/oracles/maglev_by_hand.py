"""Weighted Maglev as plain Python, slot by slot, from the paper's pseudocode; shares no code with the product's."""

import hashlib

PRIME = 65_537


def maglev_by_hand(back_ends):
    """Return {slot: (address, port)} for back ends given as (address, port, weight)."""
    alive = sorted((b for b in back_ends if b[2]), key=lambda b: (b[0].version, b[0], b[1]))
    if not alive:
        return {}
    whole = sum(weight for *_, weight in alive)
    quota = {b: PRIME * b[2] // whole for b in alive}
    rest = sorted(alive, key=lambda b: -(PRIME * b[2] % whole))  # stable: ties keep the order
    for b in rest[: PRIME - sum(quota.values())]:
        quota[b] += 1
    permutations = {}
    for b in alive:
        digest = hashlib.blake2b(b[0].packed + b[1].to_bytes(2, "big"), digest_size=16).digest()
        offset, skip = int.from_bytes(digest[:8], "big") % PRIME, int.from_bytes(digest[8:], "big") % (PRIME - 1) + 1
        permutations[b] = iter([(offset + j * skip) % PRIME for j in range(PRIME)])
    table, credit, most = {}, dict.fromkeys(alive, 0), max(b[2] for b in alive)
    while len(table) < PRIME:
        for b in alive:
            credit[b] += b[2]
            if credit[b] >= most:
                credit[b] -= most
                if quota[b]:
                    quota[b] -= 1
                    slot = next(s for s in permutations[b] if s not in table)
                    table[slot] = b[:2]
    return table
