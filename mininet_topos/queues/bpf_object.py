"""Read a compiled BPF object (64-bit little-endian ELF): programs, map definitions and map relocations.

A map definition is five 32-bit words in the section `maps`: type, key bytes, value bytes, entries, flags (`struct map`
of `queue_model.c`). A program is a section of 8-byte instructions whose name begins with `tc/`; a relocation names an
instruction that loads a map's address. The rest of ELF is not needed and not read. ADR 18 compares this with libbpf.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

OBJECT_FILE = Path(__file__).with_name("queue_model.o")
INSTRUCTION_BYTES = 8
EM_BPF, ELF64_LITTLE_ENDIAN = 247, b"\x7fELF\x02\x01"
SHT_SYMTAB, SHT_REL = 2, 9
R_BPF_64_64 = 1
PSEUDO_MAP_FD = 1
PROGRAM_PREFIX, MAPS_SECTION, LICENCE_SECTION = "tc/", "maps", "license"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQ")
_MAP = struct.Struct("<5I")


class MapDefinition(NamedTuple):
    """The arguments of `bpf(BPF_MAP_CREATE)`."""

    kind: int
    key_bytes: int
    value_bytes: int
    entries: int
    flags: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The instructions of one program, and the byte offsets of those that load a map's address."""

    code: bytes
    maps_at: Mapping[int, str]

    def linked(self, map_fds: Mapping[str, int]) -> bytes:
        """Return the instructions with the maps' file descriptors filled in."""
        code = bytearray(self.code)
        for offset, name in self.maps_at.items():
            code[offset + 1] = code[offset + 1] & 0x0F | PSEUDO_MAP_FD << 4  # the source register's field
            struct.pack_into("<i", code, offset + 4, map_fds[name])
        return bytes(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class BpfObject:
    """The programs and maps of one object file, by name."""

    programs: Mapping[str, Program]
    maps: Mapping[str, MapDefinition]
    licence: bytes


class _Section(NamedTuple):
    name: str
    kind: int
    data: bytes
    link: int
    target: int


def read_object(image: bytes) -> BpfObject:
    """Read an object file; raises ValueError if it is damaged or not of the form that this loader supports."""
    try:
        return _read(image)
    except (struct.error, IndexError, KeyError, OverflowError, StopIteration, UnicodeDecodeError) as fault:
        raise ValueError(f"damaged BPF object: {fault}") from None


def _read(image: bytes) -> BpfObject:
    if image[:6] != ELF64_LITTLE_ENDIAN or struct.unpack_from("<H", image, 18)[0] != EM_BPF:
        raise ValueError("not a little-endian BPF object")
    sections = _sections(image)
    symbols = _symbols(sections)
    by_name = {section.name: number for number, section in enumerate(sections)}
    maps_section = by_name[MAPS_SECTION]
    maps = {
        name: MapDefinition(*_MAP.unpack_from(sections[maps_section].data, offset))
        for name, number, offset in symbols
        if number == maps_section and name
    }
    programs = {
        section.name.removeprefix(PROGRAM_PREFIX): Program(
            code=section.data, maps_at=_map_loads(sections, number, symbols)
        )
        for number, section in enumerate(sections)
        if section.name.startswith(PROGRAM_PREFIX)
    }
    if not programs or any(len(program.code) % INSTRUCTION_BYTES for program in programs.values()):
        raise ValueError("a BPF object without whole programs")
    if any(name not in maps for program in programs.values() for name in program.maps_at.values()):
        raise ValueError("a BPF object that loads something other than its maps")
    return BpfObject(programs=programs, maps=maps, licence=sections[by_name[LICENCE_SECTION]].data)


def _sections(image: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", image, 40)
    entry_bytes, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [_SECTION.unpack_from(image, start + number * entry_bytes) for number in range(count)]
    name_at = headers[names][4]
    found = []
    for name, kind, _flags, _address, offset, size, link, target, _align, _entry in headers:
        if offset + size > len(image):
            raise ValueError("damaged BPF object: a section lies outside of the file")
        found.append(_Section(_text(image, name_at + name), kind, image[offset : offset + size], link, target))
    return found


def _symbols(sections: list[_Section]) -> list[tuple[str, int, int]]:
    """Return name, section and offset of each symbol; relocations refer to symbols by this index."""
    table = next(section for section in sections if section.kind == SHT_SYMTAB)
    names = sections[table.link].data
    return [(_text(names, name), section, value) for name, _, _, section, value, _ in _SYMBOL.iter_unpack(table.data)]


def _map_loads(sections: list[_Section], program: int, symbols: list[tuple[str, int, int]]) -> dict[int, str]:
    loads = {}
    for section in sections:
        if section.kind == SHT_REL and section.target == program:
            for offset, info in _RELOCATION.iter_unpack(section.data):
                if info & 0xFFFFFFFF != R_BPF_64_64 or offset + 2 * INSTRUCTION_BYTES > len(sections[program].data):
                    raise ValueError("a BPF object with a relocation that is no load of a map")
                loads[offset] = symbols[info >> 32][0]
    return loads


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    if end < 0:
        raise ValueError("damaged BPF object: a name without an end")
    return data[at:end].decode()
