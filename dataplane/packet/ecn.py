r"""Explicit congestion notification across a tunnel (RFC 6040), normal mode.

Going in (4.1) the outer header gets the inner field as it is. Coming out (4.2):

    inner \ outer  | not-ECT   ECT(0)    ECT(1)    CE
    ---------------+--------------------------------------
    not-ECT        | not-ECT   not-ECT   not-ECT   drop
    ECT(0)         | ECT(0)    ECT(0)    ECT(1)    CE
    ECT(1)         | ECT(1)    ECT(1)    ECT(1)    CE
    CE             | CE        CE        CE        CE

So RoCE's congestion marks, made by a switch on the way, reach the receiver's CNP; the ICRC does not cover them.
"""

from dataplane.jit import inline

NOT_ECT, ECT_1, ECT_0, CE = range(4)
"""RFC 3168, 5."""
LOST = -1
"""What CE outside makes of a packet that cannot carry it."""


@inline
def decapsulated(inner: int, outer: int) -> int:
    """Return the inner field after the outer header was taken off, or LOST."""
    if outer == CE:
        return CE if inner != NOT_ECT else LOST
    if outer == ECT_1 and inner == ECT_0:
        return ECT_1
    return inner
