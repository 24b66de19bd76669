"""The bpf(2) system call by ctypes: create and update maps, load programs, attach them by links.

No compiler and no library is needed: the ports' programs have six and two instructions. All functions raise `BpfError`.
"""

import ctypes
import errno
import platform
import struct

from heddle.dataplane.io.fault import BpfError

BPF_MAP_CREATE, BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD, BPF_LINK_CREATE = 0, 1, 2, 5, 28
BPF_MAP_TYPE_XSKMAP = 17
BPF_PROG_TYPE_SCHED_CLS, BPF_PROG_TYPE_XDP = 3, 6
BPF_XDP, BPF_TCX_INGRESS = 37, 46
BPF_F_XDP_HAS_FRAGS = 1 << 5
XDP_FLAGS_SKB_MODE = 1 << 1
XDP_PASS, TC_ACT_SHOT = 2, 2
CALL_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361}
ATTRIBUTE_BYTES = 128
LOG_BYTES = 1 << 16
INSTRUCTION_BYTES = 8

_libc = ctypes.CDLL(None, use_errno=True)


def create_map(name: str, kind: int, key_bytes: int, value_bytes: int, entries: int, flags: int = 0) -> int:
    """Create a map and return its descriptor."""
    values = (kind, key_bytes, value_bytes, entries, flags, 0, 0)
    return _call(BPF_MAP_CREATE, struct.pack("<7I16s", *values, name.encode()))


def update(map_fd: int, key: int, value: bytes) -> None:
    """Set an entry of a map whose keys are 4 bytes."""
    key_buffer = ctypes.create_string_buffer(struct.pack("<I", key), 4)
    value_buffer = ctypes.create_string_buffer(value, len(value))
    addresses = ctypes.addressof(key_buffer), ctypes.addressof(value_buffer)
    _call(BPF_MAP_UPDATE_ELEM, struct.pack("<IIQQQ", map_fd, 0, *addresses, 0))


def lookup(map_fd: int, key: bytes, value_bytes: int) -> bytes | None:
    """Return the value of a key, None if the map has no such key."""
    key_buffer, value_buffer = ctypes.create_string_buffer(key, len(key)), ctypes.create_string_buffer(value_bytes)
    addresses = ctypes.addressof(key_buffer), ctypes.addressof(value_buffer)
    try:
        _call(BPF_MAP_LOOKUP_ELEM, struct.pack("<IIQQQ", map_fd, 0, *addresses, 0))
    except BpfError as refused:
        if refused.code == errno.ENOENT:
            return None
        raise
    return value_buffer.raw


def load_program(
    name: str, code: bytes, *, kind: int, licence: bytes = b"GPL", flags: int = 0, attach_type: int = 0
) -> int:
    """Load a program and return its descriptor; the error of a rejected program has the verifier's last line."""
    instructions = ctypes.create_string_buffer(code, len(code))
    licence_text = ctypes.create_string_buffer(licence)
    log = ctypes.create_string_buffer(LOG_BYTES)

    def attributes(log_level: int) -> bytes:
        text = (log_level, len(log), ctypes.addressof(log)) if log_level else (0, 0, 0)
        head = kind, len(code) // INSTRUCTION_BYTES, ctypes.addressof(instructions), ctypes.addressof(licence_text)
        return struct.pack("<IIQQIIQII16sII", *head, *text, 0, flags, name.encode(), 0, attach_type)

    try:
        return _call(BPF_PROG_LOAD, attributes(0))
    except BpfError as plain:
        try:
            return _call(BPF_PROG_LOAD, attributes(1))
        except BpfError:
            lines = [line for line in log.value.decode(errors="replace").splitlines() if line.strip()]
            verdict = next((line for line in reversed(lines) if not line.startswith("processed ")), "")
            raise BpfError(plain.code, verdict) from None


def attach(program_fd: int, interface_index: int, attach_type: int, flags: int = 0) -> int:
    """Attach a program to an interface and return the link's descriptor; closing it detaches the program."""
    return _call(BPF_LINK_CREATE, struct.pack("<4I", program_fd, interface_index, attach_type, flags))


def redirect_program(map_fd: int) -> bytes:
    """Return the XDP program that redirects a frame to the AF_XDP socket of its queue, or passes it to the kernel.

        r2 = ctx->rx_queue_index; r1 = map; r3 = XDP_PASS; call bpf_redirect_map; exit

    The load of the map is one instruction in two slots.
    """
    return (
        _instruction(0x61, 2, 1, 16)
        + _instruction(0x18, 1, 1, 0, map_fd)
        + _instruction(0)
        + _instruction(0xB7, 3, 0, 0, XDP_PASS)
        + _instruction(0x85, immediate=51)
        + _instruction(0x95)
    )


def drop_program() -> bytes:
    """Return the tc program that drops every frame, after packet sockets have received it."""
    return _instruction(0xB7, immediate=TC_ACT_SHOT) + _instruction(0x95)


def _instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, immediate: int = 0) -> bytes:
    return struct.pack("<BBhi", code, target | source << 4, offset, immediate)


def _call(command: int, attributes: bytes) -> int:
    number = CALL_NUMBERS.get(platform.machine())
    if number is None:
        raise BpfError(errno.ENOSYS, f"the number of bpf(2) on {platform.machine()} is not known")
    buffer = ctypes.create_string_buffer(attributes, ATTRIBUTE_BYTES)
    result = int(_libc.syscall(number, command, buffer, ATTRIBUTE_BYTES))
    if result < 0:
        raise BpfError(ctypes.get_errno())
    return result
