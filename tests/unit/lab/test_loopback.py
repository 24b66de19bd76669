"""Ports for the programs of labs: two labs never choose the same, and none that another program has."""

import socket

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.services import loopback
from heddle.mininet_topos.services.loopback import ANY_PORT, preferred, reserve, reserved_port


@pytest.fixture
def port() -> int:
    with reserved_port() as found:
        return found


def test_of_two_labs_that_start_at_once_one_gets_the_usual_address_and_the_next_lab_after_it_again(port):
    address = f"127.0.0.1:{port}"
    with preferred(address) as first, preferred(address) as second:  # the program of neither listens yet
        assert (first, second) == (address, ANY_PORT)
    with preferred(address) as third:
        assert third == address


def test_an_address_at_which_a_program_listens_is_left_to_it(port):
    address = f"127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)), preferred(address) as found:
        assert found == ANY_PORT
    with preferred(address) as found:
        assert found == address


def test_a_reserved_port_is_not_reserved_again_until_the_end_of_its_block():
    with reserved_port() as port:
        assert reserve(port) is None
        with socket.create_server(("127.0.0.1", port)):  # its program may have it
            pass
    name = reserve(port)
    assert name is not None
    name.close()


def test_without_a_free_port_a_lab_ends_with_a_reason(port, monkeypatch):
    monkeypatch.setattr(loopback, "FIRST", port)
    monkeypatch.setattr(loopback, "LAST", port)
    with reserved_port() as only, pytest.raises(PrerequisiteError, match="no free port"), reserved_port():
        pass
    assert only == port
