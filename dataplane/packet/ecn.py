r"""Explicit congestion notification across a tunnel (RFC 6040), normal mode.

Encapsulation (4.1): the outer header gets a copy of the inner field. Decapsulation (4.2):

    inner \ outer  | not-ECT   ECT(0)    ECT(1)    CE
    ---------------+--------------------------------------
    not-ECT        | not-ECT   not-ECT   not-ECT   drop
    ECT(0)         | ECT(0)    ECT(0)    ECT(1)    CE
    ECT(1)         | ECT(1)    ECT(1)    ECT(1)    CE
    CE             | CE        CE        CE        CE

So a congestion mark that a switch in the underlay sets reaches the RoCE receiver, which sends a CNP. The ICRC does not
cover the field.
"""

from heddle.dataplane.jit import inline

NOT_ECT, ECT_1, ECT_0, CE = range(4)
"""RFC 3168, 5."""
LOST = -1
"""Result for a packet that must be dropped: CE outside, not-ECT inside."""


@inline
def decapsulated(inner: int, outer: int) -> int:
    """Return the inner field after decapsulation, or LOST."""
    if outer == CE:
        return CE if inner != NOT_ECT else LOST
    if outer == ECT_1 and inner == ECT_0:
        return ECT_1
    return inner
