"""Real sockets of this machine: the kernel names the user that has the other end of a connection."""

import os
import socket

import pytest

from heddle.controller.runtime.limits.socket_owner import Ends, user_of


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_user_of_a_connection_is_found_by_its_ends(family, host):
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port)) as client, server.accept()[0]:
            own = client.getsockname()[:2]
            assert user_of(Ends(own, (host, port))) == os.getuid()
            unused = 1
            assert user_of(Ends((host, unused), (host, port))) is None


def test_ends_of_two_families_have_no_user():
    assert user_of(Ends(("127.0.0.1", 1), ("::1", 1))) is None
