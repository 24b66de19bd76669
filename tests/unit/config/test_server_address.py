"""Addresses of a controller: an address with a port, or a socket in the file system."""

from typing import Any

import pytest

from heddle.controller.config.service import load_service
from heddle.controller.model.error import InputError
from heddle.controller.model.server_address import MAX_PATH_BYTES, is_address_port, is_socket


@pytest.mark.parametrize("text", ["127.0.0.1:0", "[::1]:50051", "controller.example:65535"])
def test_an_address_and_a_port_are_one(text):
    assert is_address_port(text)
    assert load_service(None, grpc=text, insecure=True).grpc == text


@pytest.mark.parametrize("text", ["", ":1", "127.0.0.1", "127.0.0.1:65536", "127.0.0.1:x", "unix:relative", "unix:"])
def test_an_invalid_address_is_refused_with_the_remedy(text):
    assert not is_address_port(text)
    assert not is_socket(text)
    with pytest.raises(InputError, match=r"unix:/PATH"):
        load_service(None, grpc=text)


def test_a_socket_is_an_absolute_path_that_the_kernel_takes():
    longest = "unix:/" + "x" * (MAX_PATH_BYTES - 1)
    assert is_socket(longest)
    assert not is_socket(longest + "x")
    assert load_service(None, grpc="unix:/run/heddle.sock").grpc == "unix:/run/heddle.sock"


@pytest.mark.parametrize("key", ["openflow", "http"])
def test_switches_and_browsers_have_no_sockets(key):
    address: dict[str, Any] = {key: "unix:/run/heddle.sock"}
    with pytest.raises(InputError):
        load_service(None, **address)
