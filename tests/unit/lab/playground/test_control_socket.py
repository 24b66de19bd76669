"""The control socket of a lab: who may use it, what is refused, and what a client gets."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle.controller.model.error import HeddleError, NotFoundError, UnavailableError
from heddle.mininet_topos.host.json_lines import write_line
from heddle.mininet_topos.host.registry import LabEntry
from heddle.mininet_topos.playground import client, control
from heddle.mininet_topos.playground.client import call
from heddle.mininet_topos.playground.control import ControlServer


class Lab:
    """Operations without a lab."""

    def __init__(self) -> None:
        self.left, self.reported = threading.Event(), threading.Event()

    def echo(self, request, report):
        for number in range(3):
            assert report({"number": number})
        return {"echo": request["text"]}

    def refuse(self, request, report):
        raise NotFoundError("no link x")

    def fail(self, request, report):
        raise RuntimeError("a bug")

    def long(self, request, report):
        while report({}):
            self.reported.set()
        self.left.set()
        return {}


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def entry(lab, tmp_path) -> Iterator[LabEntry]:
    operations = {name: getattr(lab, name) for name in ("echo", "refuse", "fail", "long")}
    with ControlServer(tmp_path, operations):
        yield LabEntry(id="abcd", token="", directory=tmp_path)


def raw(entry: LabEntry, sent: bytes) -> dict:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(entry.directory / control.SOCKET))
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return json.loads(connection.makefile("rb").readline())


def test_a_request_gets_its_progress_and_its_result(entry):
    seen: list[dict] = []
    assert call(entry, {"op": "echo", "text": "x"}, seen.append) == {"echo": "x"}
    assert seen == [{"number": 0}, {"number": 1}, {"number": 2}]


def test_an_error_arrives_with_its_text_and_exit_status(entry):
    with pytest.raises(HeddleError, match=r"^no link x$") as refusal:
        call(entry, {"op": "refuse"})
    assert refusal.value.exit_status == NotFoundError.exit_status


def test_a_bug_of_an_operation_reaches_both_ends_and_the_lab_goes_on(entry, capsys):
    with pytest.raises(HeddleError, match=r"^RuntimeError: a bug$"):
        call(entry, {"op": "fail"})
    assert "a bug" in capsys.readouterr().err
    assert call(entry, {"op": "echo", "text": "y"}) == {"echo": "y"}


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b'{"op": "format"}\n', "unknown operation 'format'"),
        (b"[1]\n", "the request is no JSON object"),
        (b"\xff{\n", "the request is no JSON object"),
        (b'{"op"', "the connection was closed before the request was complete"),
        (b"x" * (control.MAX_REQUEST_BYTES + 1), "the request is longer than 65,536 bytes"),
    ],
)
def test_a_malformed_request_is_refused_in_one_line(entry, sent, problem):
    reply = raw(entry, sent)
    assert (reply["ok"], reply["error"], reply["exit_status"]) == (False, problem, 2)


def test_only_its_owner_can_open_the_socket_file(entry):
    assert (entry.directory / control.SOCKET).stat().st_mode & 0o777 == 0o600


def test_another_user_is_refused(entry, monkeypatch):
    monkeypatch.setattr(control, "_CREDENTIALS", type("Credentials", (), {"size": 12, "unpack": lambda _: (1, 7, 7)}))
    with pytest.raises(HeddleError, match=r"^user 7 may not control this lab$"):
        call(entry, {"op": "echo", "text": "x"})


def test_a_refusal_that_comes_before_the_request_is_read_by_the_client(entry, monkeypatch):
    refused = threading.Event()
    monkeypatch.setattr(control, "_CREDENTIALS", type("Credentials", (), {"size": 12, "unpack": lambda _: (1, 7, 7)}))
    sent = control._send

    def send_and_signal(connection, message):
        sent(connection, message)
        connection.close()
        refused.set()

    def wait_and_write(stream, request):
        assert refused.wait(20)
        write_line(stream, request)

    monkeypatch.setattr(control, "_send", send_and_signal)
    monkeypatch.setattr(client, "write_line", wait_and_write)
    with pytest.raises(HeddleError, match=r"^user 7 may not control this lab$"):
        call(entry, {"op": "echo", "text": "x"})


def test_a_client_that_goes_away_ends_what_it_started(entry, lab):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(entry.directory / control.SOCKET))
        connection.sendall(b'{"op": "long"}\n')
        assert lab.reported.wait(20)
    assert lab.left.wait(20)


def test_a_client_of_a_lab_that_has_ended_gets_one_line(tmp_path):
    gone = LabEntry(id="abcd", token="", directory=Path(tmp_path))
    with pytest.raises(UnavailableError, match=r"^lab abcd has ended$"):
        call(gone, {"op": "echo"})
