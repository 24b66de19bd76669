"""Importing a file of any content gives a fabric that reads back equal, or one line that names the place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.config import parse_fabric
from heddle.controller.config.foreign import FORMATS, Imported, Options, import_fabric
from heddle.controller.config.foreign.read import import_text
from heddle.controller.config.write import fabric_text
from heddle.controller.model.error import InputError
from tests.unit.config.foreign_files import BATFISH, HEDGEHOG, HPCC, HTSIM, LAB, LINGJUN, RAILS

SOURCES = {
    "lingjun": LINGJUN, "simai": RAILS, "hpcc": HPCC, "htsim": HTSIM, "batfish": BATFISH, "hedgehog": HEDGEHOG,
    "containerlab": LAB,
}  # fmt: skip
WORDS = [
    "",
    "0",
    "-1",
    "1e9",
    "nan",
    "99999999999999999999",
    "{",
    "[]",
    "null",
    "a: b",
    ",",
    '"',
    "\x00",
    "é",
    "\n",
    "²",
]


def sound_or_refused(text, format_name):
    try:
        found: Imported | InputError = import_text(text, "source", "source", Options(), format_name)
    except InputError as error:
        found = error
    if isinstance(found, InputError):
        assert found.problems
        assert all(line.startswith("source") and line.isprintable() for line in found.problems)
        return
    written = "\n".join(fabric_text(found.fabric, (*found.assumed, *found.left_out), found.generate))
    assert parse_fabric(written, "written") == found.fabric


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_message(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("garbage") / "file"
    path.write_bytes(content)
    with pytest.raises(InputError):
        import_fabric(path, Options())


@given(st.sampled_from(sorted(FORMATS)), st.text(max_size=100))
def test_any_text_in_any_format_is_refused_with_a_message(format_name, text):
    sound_or_refused(text, format_name)


def test_every_format_has_a_file_to_mutate():
    assert SOURCES.keys() == FORMATS.keys()


@given(st.sampled_from(sorted(SOURCES)), st.data())
def test_a_mutated_file_is_sound_or_refused_with_a_message(format_name, data):
    text = SOURCES[format_name]
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 12)))
        text = text[:begin] + data.draw(st.sampled_from(WORDS) | st.text(max_size=3)) + text[end:]
    sound_or_refused(text, format_name)


@given(st.sampled_from(sorted(SOURCES)), st.data())
def test_a_file_with_lines_missing_or_twice_is_sound_or_refused_with_a_message(format_name, data):
    lines = SOURCES[format_name].splitlines(keepends=True)
    chosen = data.draw(st.lists(st.sampled_from(range(len(lines))), min_size=1, max_size=len(lines)))
    sound_or_refused("".join(lines[i] for i in sorted(chosen)), format_name)
