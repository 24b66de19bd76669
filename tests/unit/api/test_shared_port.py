"""A listening socket that was bound alone is shared with a successor of the same process, and only then."""

import socket

import pytest

from heddle.controller.api.shared_port import share_port


def listening(port: int, *, reuse: bool) -> socket.socket:
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(reuse))
        found.bind(("127.0.0.1", port))
        found.listen()
    except OSError:
        found.close()
        raise
    return found


def test_a_successor_listens_beside_the_first_once_the_port_is_shared_and_others_are_still_refused():
    with listening(0, reuse=False) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            listening(port, reuse=True)
        assert share_port(port) == 1
        with pytest.raises(OSError, match="in use"):
            listening(port, reuse=False)
        with listening(port, reuse=True) as second:
            first.close()
            with socket.create_connection(("127.0.0.1", port), 10):
                second.accept()[0].close()


def test_connections_and_ports_of_others_are_left_alone():
    with listening(0, reuse=False) as first, socket.create_connection(first.getsockname(), 10) as client:
        assert share_port(client.getsockname()[1]) == 0
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
