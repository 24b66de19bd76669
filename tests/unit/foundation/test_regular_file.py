"""Regular files are read within a limit; a FIFO, device, directory or socket is refused without waiting."""

import os
import socket

import pytest

from heddle.foundation.regular_file import open_regular, read_regular


def test_a_file_of_the_limit_is_read_and_a_byte_more_is_refused(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(b"12345678")
    assert read_regular(path, 8) == b"12345678"
    with pytest.raises(OSError, match="larger than 7 bytes, the most that is read"):
        read_regular(path, 7)


def test_a_file_that_has_more_than_its_size_says_is_refused_too():
    with pytest.raises(OSError, match="larger than 1 bytes"):
        read_regular("/proc/self/status", 1)


def test_a_fifo_a_device_a_directory_and_a_socket_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "fifo", tmp_path / "socket", tmp_path, "/dev/zero"):
            with pytest.raises(OSError, match=r"no regular file|Is a directory|No such device"):
                open_regular(path)
