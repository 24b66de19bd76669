"""Give up the privileges that a process no longer needs (capabilities(7), prctl(2)).

The packet process needs its capabilities to open ports. After that it reads packets of strangers, and needs none.
"""

import ctypes
import os

_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
_LAST = 63


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_capabilities() -> None:
    """Drop all capabilities of the calling thread, and what programs that it starts could gain; raises OSError.

    The bounding set can be emptied by a process with CAP_SETPCAP only; without it, no_new_privs has the same effect.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_LAST + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header, none = _Header(_VERSION_3, 0), (_Sets * 2)()
    if libc.capset(ctypes.byref(header), none) or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
