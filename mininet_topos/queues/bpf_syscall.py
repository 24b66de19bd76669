"""The system call bpf(2) by ctypes: make a map, write to it, map it into memory, load a program."""

import ctypes
import mmap
import os
import platform
import struct

from controller.model.error import EnvironmentFault
from mininet_topos.queues.bpf_object import INSTRUCTION_BYTES, MapDefinition

BPF_MAP_CREATE, BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD = 0, 2, 5
BPF_PROG_TYPE_SCHED_CLS = 3
CALL_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361}
ATTRIBUTE_BYTES = 128
LOG_BYTES = 1 << 16
EPERM = 1

_libc = ctypes.CDLL(None, use_errno=True)


def create_map(name: str, definition: MapDefinition) -> int:
    """Make a map and return its descriptor; raises EnvironmentFault."""
    attributes = struct.pack("<7I16s", *definition, 0, 0, name.encode())
    return _call(BPF_MAP_CREATE, attributes, f"make the map {name}")


def update(map_fd: int, key: int, value: bytes) -> None:
    """Set an entry of an array map; raises EnvironmentFault."""
    key_buffer = ctypes.create_string_buffer(struct.pack("<I", key), 4)
    value_buffer = ctypes.create_string_buffer(value, len(value))
    addresses = ctypes.addressof(key_buffer), ctypes.addressof(value_buffer)
    _call(BPF_MAP_UPDATE_ELEM, struct.pack("<IIQQQ", map_fd, 0, *addresses, 0), "write to a map")


def memory_of(map_fd: int, definition: MapDefinition) -> mmap.mmap:
    """Map the values of an array that was made with the flag for it; a value's size is rounded up to 8 bytes."""
    size = -(-definition.value_bytes // 8) * 8 * definition.entries
    return mmap.mmap(map_fd, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)


def load_program(name: str, code: bytes, licence: bytes) -> int:
    """Hand a linked program to the kernel's verifier and return its descriptor; raises EnvironmentFault."""
    instructions = ctypes.create_string_buffer(code, len(code))
    terms = ctypes.create_string_buffer(licence)
    log = ctypes.create_string_buffer(LOG_BYTES)

    def attributes(log_level: int) -> bytes:
        text = (log_level, len(log), ctypes.addressof(log)) if log_level else (0, 0, 0)
        addresses = ctypes.addressof(instructions), ctypes.addressof(terms)
        count = len(code) // INSTRUCTION_BYTES
        return struct.pack("<IIQQIIQII16s", BPF_PROG_TYPE_SCHED_CLS, count, *addresses, *text, 0, 0, name.encode())

    try:
        return _call(BPF_PROG_LOAD, attributes(0), f"load the program {name}")
    except EnvironmentFault as plain:
        try:
            return _call(BPF_PROG_LOAD, attributes(1), f"load the program {name}")
        except EnvironmentFault:
            words = [line for line in log.value.decode(errors="replace").splitlines() if line.strip()]
            verdict = next((line for line in reversed(words) if not line.startswith("processed ")), "")
            raise EnvironmentFault(f"{plain}{f' (verifier: {verdict})' if verdict else ''}") from None


def _call(command: int, attributes: bytes, purpose: str) -> int:
    number = CALL_NUMBERS.get(platform.machine())
    if number is None:
        raise EnvironmentFault(f"the queue model does not know this machine's kind, {platform.machine()}")
    buffer = ctypes.create_string_buffer(attributes, ATTRIBUTE_BYTES)
    result = int(_libc.syscall(number, command, buffer, ATTRIBUTE_BYTES))
    if result < 0:
        code = ctypes.get_errno()
        remedy = "run as root with CAP_BPF and CAP_NET_ADMIN" if code == EPERM else "it takes Linux 5.5 or newer"
        raise EnvironmentFault(f"the kernel does not {purpose} for the queue model: {os.strerror(code)}; {remedy}")
    return result
