"""The shipped BPF object, read by the loader and compared with its source and with the Python constants."""

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.queues.attach import QUEUE_WORDS
from heddle.mininet_topos.queues.bpf_object import OBJECT_FILE, read_object

SOURCE = OBJECT_FILE.with_name("queue_model.c").read_text()
IMAGE = OBJECT_FILE.read_bytes()


def test_the_shipped_object_has_both_programs_and_all_maps():
    found = read_object(IMAGE)
    assert set(found.programs) == {"egress", "ingress"}
    assert {name: (m.kind, m.key_bytes, m.value_bytes, m.flags) for name, m in found.maps.items()} == {
        "ports": (2, 4, 16, 0),
        "limits": (2, 4, 24, 0),
        "queues": (2, 4, 8 * len(QUEUE_WORDS), 1 << 10),
        "classes": (2, 4, 64, 0),
        "arrivals": (9, 16, 4, 0),
        "crossings": (1, 8, 16, 1),
    }


def test_its_licence_lets_it_call_the_kernel():
    assert read_object(IMAGE).licence == b"Dual MIT/GPL\0"
    assert "SPDX-License-Identifier: MIT OR GPL-2.0-only" in SOURCE


def test_the_words_of_a_queue_have_the_source_s_names_and_order():
    body = re.search(r"struct queue \{(.*?)\};", SOURCE, re.DOTALL)
    assert body is not None
    code = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
    assert tuple(re.findall(r"\w+", code.replace("u64", ""))) == QUEUE_WORDS


def test_linking_fills_in_each_map_s_descriptor_and_nothing_else():
    for program in read_object(IMAGE).programs.values():
        fds = {name: 100 + number for number, name in enumerate(sorted(set(program.maps_at.values())))}
        code = program.linked(fds)
        changed = {at // 8 * 8 for at in range(len(code)) if code[at] != program.code[at]}
        assert changed == set(program.maps_at)
        for offset, name in program.maps_at.items():
            opcode, registers, _, number = struct.unpack_from("<BBhi", code, offset)
            assert (opcode, registers >> 4, number) == (0x18, 1, fds[name])  # load of 64 bits, from a map's descriptor


def test_no_path_of_the_machine_that_compiled_it_is_in_it():
    assert re.search(rb"(/[\w.-]{2,}){2}|clang", IMAGE) is None


@pytest.mark.parametrize("image", [b"", b"\x7fELF", Path(__file__).read_bytes(), b"\x7fELF\x02\x01" + bytes(200)])
def test_what_is_no_bpf_object_is_refused(image):
    with pytest.raises(ValueError, match="BPF object"):
        read_object(image)


SECTION_BYTES = 64


def section_at(position: int) -> int:
    """Return the offset of a section's header in the object."""
    (start,) = struct.unpack_from("<Q", IMAGE, 40)
    return start + SECTION_BYTES * position


def damaged(offset: int, layout: str, value: int) -> bytes:
    image = bytearray(IMAGE)
    struct.pack_into(layout, image, offset, value)
    return bytes(image)


def relocations() -> int:
    """Return the offset of the first relocation in the object."""
    (count,) = struct.unpack_from("<H", IMAGE, 60)
    headers = [struct.unpack_from("<IIQQQQ", IMAGE, section_at(number)) for number in range(count)]
    return next(offset for _, kind, _, _, offset, size in headers if kind == 9 and size)  # SHT_REL


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (damaged(section_at(1) + 32, "<Q", len(IMAGE)), "a section lies outside of the file"),
        (damaged(section_at(1), "<I", 0xFFFF_FFF0), "a name without an end"),
        (damaged(relocations() + 8, "<I", 2), "a relocation that is no load of a map"),
        (damaged(relocations(), "<Q", len(IMAGE)), "a relocation that is no load of a map"),
        (damaged(relocations() + 12, "<I", 0), "loads something other than its maps"),
    ],
)
def test_an_object_that_cannot_be_loaded_is_refused_with_the_reason(image, why):
    with pytest.raises(ValueError, match=why):
        read_object(image)


@given(st.data())
def test_a_damaged_object_is_read_or_refused_and_nothing_else(data):
    image = bytearray(IMAGE)
    for at in data.draw(st.lists(st.integers(0, len(image) - 1), min_size=1, max_size=8)):
        image[at] = data.draw(st.integers(0, 255))
    cut = bytes(image[: data.draw(st.integers(0, len(image)))])
    for variant in (bytes(image), cut):
        try:
            read_object(variant)
        except ValueError as refused:
            assert "BPF object" in str(refused)  # noqa: PT017
