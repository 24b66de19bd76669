"""Lookups in a gateway's tables by the schema, in plain Python, without code of the kernels."""

MASK = (1 << 64) - 1
GOLDEN, MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def hash1(word):
    x = (word & MASK) * GOLDEN & MASK
    x = (x ^ x >> 29) * MIX & MASK
    return (x ^ x >> 32) >> 1


def hash2(first, second):
    x = (first & MASK) * GOLDEN & MASK ^ second & MASK
    x = (x ^ x >> 29) * MIX & MASK
    x = (x ^ x >> 32) * GOLDEN & MASK
    return (x ^ x >> 29) >> 1


def hash3(first, second, third):
    return hash2(hash2(first, second), third)


def hashed(*words):
    return (hash1, hash2, hash3)[len(words) - 1](*words)


def signed(word):
    word &= MASK
    return word - (1 << 64) if word >> 63 else word


def find(table, *words):
    """Return the row under a key, or -1."""
    slots = len(table)
    slot = hashed(*words) % slots
    for _ in range(slots):
        *key, row = table[slot].tolist()
        if row == -1:
            return -1
        if key == [signed(word) for word in words]:
            return row
        slot = (slot + 1) % slots
    raise AssertionError("a table without an empty slot")


def wide(address):
    return int(address) | (0xFFFF << 32 if address.version == 4 else 0)


def find_endpoint(tables, vni, address):
    return find(tables.endpoints, vni, wide(address) >> 64, wide(address))


def find_route(tables, vni, address):
    """Return the next hop of the longest prefix, or -1: only lengths in the VPC's row, and 128 for IPv6."""
    row = tables.vpcs[find(tables.vnis, vni)]
    if address.version == 4:
        lengths = [96 + bit for bit in range(33) if int(row["lengths_v4"]) >> bit & 1]
    else:
        low, high = int(row["lengths_v6_low"]) & MASK, int(row["lengths_v6_high"]) & MASK
        lengths = [bit for bit in range(128) if (high << 64 | low) >> bit & 1] + [128]
    for length in sorted(lengths, reverse=True):
        prefix = wide(address) >> (128 - length) << (128 - length)
        found = find(tables.routes, vni << 8 | length, prefix >> 64, prefix)
        if found >= 0:
            return found
    return -1
