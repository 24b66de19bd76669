"""JSON lines over a pipe, as the lab's child processes read them."""

import os

import pytest

from heddle.mininet_topos.host.json_lines import LineReader, read_configuration, read_one, wait_readable, write_line

LONG_S = 60.0


@pytest.fixture
def pipe():
    """Return a reader and the file at the other end."""
    fd, other = os.pipe()
    with os.fdopen(fd, "rb"), os.fdopen(other, "wb", buffering=0) as file:
        yield LineReader(fd), file


def test_a_line_is_read_once_its_end_has_arrived(pipe):
    reader, file = pipe
    file.write(b'{"a":1}\n{"b"')
    assert reader.read() == [{"a": 1}]
    file.write(b":2}\n")
    assert reader.read() == [{"b": 2}]


def test_objects_are_returned_one_by_one_in_their_order(pipe):
    reader, file = pipe
    for number in range(3):
        write_line(file, {"number": number})
    waiting: list[dict[str, int]] = []
    assert [read_one(reader, waiting, LONG_S) for _ in range(3)] == [{"number": number} for number in range(3)]


def test_an_object_that_does_not_arrive_in_time_is_none(pipe):
    reader, _ = pipe
    assert read_one(reader, [], 0.001) is None
    assert read_one(reader, [], 0.0) is None
    assert not reader.closed


def test_the_end_of_the_input_is_none_and_is_recorded(pipe):
    reader, file = pipe
    file.close()
    assert read_one(reader, [], LONG_S) is None
    assert reader.closed


def test_a_descriptor_with_input_or_at_its_end_is_readable(pipe):
    reader, file = pipe
    assert wait_readable([reader.fd], 0) == []
    write_line(file, {})
    assert wait_readable([reader.fd], LONG_S) == [reader.fd]
    reader.read()
    file.close()
    assert wait_readable([reader.fd], LONG_S) == [reader.fd]


def test_the_configuration_is_the_first_command_of_a_child(pipe):
    reader, file = pipe
    write_line(file, {"command": "configure"})
    assert read_configuration(reader) == {"command": "configure"}


def test_a_child_whose_input_ends_first_has_no_configuration(pipe):
    reader, file = pipe
    file.write(b'{"command"')
    file.close()
    assert read_configuration(reader) is None
