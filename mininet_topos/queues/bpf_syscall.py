"""What the queue model asks of bpf(2), by the loader of the dataplane; refusals are told with what to do about them."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

from controller.model.error import PrerequisiteError
from dataplane.io.af_xdp import bpf
from dataplane.io.fault import BpfError
from mininet_topos.queues.bpf_object import MapDefinition


def create_map(name: str, definition: MapDefinition) -> int:
    """Make a map and return its descriptor; raises PrerequisiteError."""
    with _told(f"make the map {name}"):
        return bpf.create_map(name, *definition)


def update(map_fd: int, key: int, value: bytes) -> None:
    """Set an entry of an array map; raises PrerequisiteError."""
    with _told("write to a map"):
        bpf.update(map_fd, key, value)


def memory_of(map_fd: int, definition: MapDefinition) -> mmap.mmap:
    """Map the values of an array that was made with the flag for it; a value's size is rounded up to 8 bytes."""
    size = -(-definition.value_bytes // 8) * 8 * definition.entries
    return mmap.mmap(map_fd, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)


def load_program(name: str, code: bytes, licence: bytes) -> int:
    """Hand a linked program to the kernel's verifier and return its descriptor; raises PrerequisiteError."""
    with _told(f"load the program {name}"):
        return bpf.load_program(name, code, kind=bpf.BPF_PROG_TYPE_SCHED_CLS, licence=licence)


@contextmanager
def _told(purpose: str) -> Iterator[None]:
    try:
        yield
    except BpfError as refused:
        remedy = "run as root with CAP_BPF and CAP_NET_ADMIN" if refused.forbidden else "it takes Linux 5.5 or newer"
        verdict = f" (verifier: {refused.verdict})" if refused.verdict else ""
        reason = os.strerror(refused.code)
        raise PrerequisiteError(
            f"the kernel does not {purpose} for the queue model: {reason}; {remedy}{verdict}"
        ) from None
