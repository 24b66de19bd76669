"""The bpf(2) calls of the queue model, through the dataplane's loader, with errors that name the remedy."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

from heddle.controller.model.error import PrerequisiteError
from heddle.dataplane.io.af_xdp import bpf
from heddle.dataplane.io.fault import BpfError
from heddle.mininet_topos.queues.bpf_object import MapDefinition


def create_map(name: str, definition: MapDefinition) -> int:
    """Create a map and return its descriptor; raises PrerequisiteError."""
    with _errors_explained(f"create the map {name}"):
        return bpf.create_map(name, *definition)


def update(map_fd: int, key: int, value: bytes) -> None:
    """Set an entry of an array map; raises PrerequisiteError."""
    with _errors_explained("write to a map"):
        bpf.update(map_fd, key, value)


def lookup(map_fd: int, key: bytes, value_bytes: int) -> bytes | None:
    """Return the value of a key, None if the map has no such key; raises PrerequisiteError."""
    with _errors_explained("read a map"):
        return bpf.lookup(map_fd, key, value_bytes)


def memory_of(map_fd: int, definition: MapDefinition) -> mmap.mmap:
    """Map the values of an array map (BPF_F_MMAPABLE) into memory; the kernel rounds a value's size up to 8 bytes."""
    size = -(-definition.value_bytes // 8) * 8 * definition.entries
    return mmap.mmap(map_fd, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)


def load_program(name: str, code: bytes, licence: bytes) -> int:
    """Load a linked program and return its descriptor; raises PrerequisiteError, with the verifier's last line."""
    with _errors_explained(f"load the program {name}"):
        return bpf.load_program(name, code, kind=bpf.BPF_PROG_TYPE_SCHED_CLS, licence=licence)


@contextmanager
def _errors_explained(purpose: str) -> Iterator[None]:
    try:
        yield
    except BpfError as refused:
        remedy = "run as root with CAP_BPF and CAP_NET_ADMIN" if refused.forbidden else "it needs Linux 5.5 or newer"
        verdict = f" (verifier: {refused.verdict})" if refused.verdict else ""
        reason = os.strerror(refused.code)
        raise PrerequisiteError(
            f"the kernel does not {purpose} for the queue model: {reason}; {remedy}{verdict}"
        ) from None
