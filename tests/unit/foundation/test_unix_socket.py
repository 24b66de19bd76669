"""A socket file of a process that has ended is distinguished from one at which a process listens."""

import socket

from heddle.foundation.unix_socket import is_listening


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
