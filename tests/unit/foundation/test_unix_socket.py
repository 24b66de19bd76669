"""A socket file of a process that has ended is distinguished from one at which a process listens."""

import socket

from heddle.foundation.unix_socket import is_listening, is_other_file


def test_a_socket_is_probed_while_open_stale_and_missing(tmp_path):
    path = tmp_path / "s.sock"
    assert not is_listening(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert not is_listening(path)
        server.listen()
        assert is_listening(path)
        assert is_listening(str(path))
    assert path.exists()
    assert not is_listening(path)


def test_a_file_that_is_no_socket_is_distinguished_from_a_socket_and_from_none(tmp_path):
    path = tmp_path / "s.sock"
    assert not is_other_file(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    assert not is_other_file(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    for other in (link, tmp_path):
        assert is_other_file(str(other))
