"""The shim in real processes: queue pairs get planned ports, and no agent, however broken, harms the program."""

import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.programs.console.launch import port_shim
from heddle.programs.console.launch.planned_ports import PlannedPorts
from heddle.programs.console.launch.responder import REPLY, REQUEST, PortResponder
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.verbs import compiled

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
QUEUE_PAIRS = 1_000
SKIPS = "heddle: no sound reply of the port agent in time: queue pairs keep their own source ports\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("verbs"))


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return port_shim.shim_library(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def run(programs, shim):
    def with_agent(
        socket_path, program="by_dlvsym", version="IBVERBS_1.1", count=QUEUE_PAIRS, label=0, peer=2, deadline_ms=30_000,
        audit=shim,
    ):  # fmt: skip
        found = subprocess.run(
            [getattr(programs, program), version, str(count), str(label), str(peer)],
            env={
                "LD_LIBRARY_PATH": str(programs.libraries),
                "LD_AUDIT": str(audit),
                "HEDDLE_PORT_SOCKET": socket_path,
                # A healthy agent may be slow on a loaded machine; the broken ones meet the default of 50 ms.
                **({"HEDDLE_PORT_DEADLINE_MS": str(deadline_ms)} if deadline_ms is not None else {}),
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert found.returncode == 0
        *rows, spent_ns = (tuple(map(int, line.split())) for line in found.stdout.splitlines())
        assert all(unchanged for _, _, unchanged, _ in rows)
        assert [number for number, *_ in rows] == [1_000 + n for n in range(count)]
        return [label for _, label, *_ in rows], found.stderr, spent_ns[0]

    return with_agent


def sent_from(label):
    """The source port of a label: rdma_flow_label_to_udp_sport of Linux' ib_verbs.h."""
    return 0xC000 | ((label & 0x03FFF) ^ ((label & 0xFC000) >> 14))


def planned(count):
    flows = [
        pb.FlowPlan(
            flow_id=f"job/0/0-1/{n}",
            src_nic="a",
            dst_nic="b",
            udp_source_port=49152 + 16 * n,
            reverse_udp_source_port=65535 - n,
            queue_pair=n,
        )
        for n in range(count)
    ]
    ports = PlannedPorts({"a": 0x0A000001, "b": 0x0A000002, "c": 0x0A000003}, lambda flow: True)
    ports.update(flows)
    return ports


@pytest.mark.parametrize("program", ["by_dlvsym", "by_dlsym", "linked", "by_module"])
def test_a_thousand_queue_pairs_get_exactly_the_planned_ports(run, program):
    with PortResponder(planned(QUEUE_PAIRS).port) as agent:
        labels, errors, _ = run(agent.path, program=program, label=12_345)
    assert [sent_from(label) for label in labels] == [49152 + 16 * n for n in range(QUEUE_PAIRS)]
    assert 0 not in labels  # it would ask the provider for a port of its own choice
    assert errors == ""


def test_a_shim_that_is_loaded_twice_requests_each_port_once(run, shim, tmp_path):
    other = shutil.copy(shim, tmp_path / "port-shim.so")  # that of the node's agent, beside that of `heddle exec`
    asked, ports = [], planned(4)

    def port(*request):
        asked.append(request)
        return ports.port(*request)

    with PortResponder(port) as agent:
        labels, errors, _ = run(agent.path, count=4, audit=f"{other}:{shim}")
    assert [sent_from(label) for label in labels] == [49152 + 16 * n for n in range(4)]
    assert (len(asked), errors) == (4, "")


def test_a_shim_that_is_missing_is_a_line_of_the_loader_and_the_program_runs(run, tmp_path):
    labels, errors, _ = run("", count=2, label=77, audit=tmp_path / "port-shim.so")
    assert labels == [77, 77]
    assert errors.count("\n") == 1
    assert "cannot be loaded as audit interface" in errors


def test_queue_pairs_beyond_the_plan_get_planned_ports_in_turn(run):
    with PortResponder(planned(4).port) as agent:
        labels, _, _ = run(agent.path, count=10)
    assert [sent_from(label) for label in labels] == [49152 + 16 * (n % 4) for n in range(10)]


def test_a_peer_outside_the_plan_keeps_the_program_s_label(run):
    with PortResponder(planned(4).port) as agent:
        labels, errors, _ = run(agent.path, count=5, label=77, peer=9)
    assert (labels, errors) == ([77] * 5, "")


def test_a_program_of_the_older_interface_is_left_alone(run):
    with PortResponder(planned(4).port) as agent:
        labels, errors, _ = run(agent.path, version="IBVERBS_1.0", count=5, label=77)
    assert (labels, errors) == ([77] * 5, "")


@contextmanager
def broken_agent(path, answer):
    """An agent that hands every connection to `answer`."""
    ended = threading.Event()
    connections = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(16)
        listener.settimeout(0.05)

        def serve():
            while not ended.is_set():
                try:
                    connections.append(listener.accept()[0])
                except TimeoutError:
                    continue
                with suppress(OSError):  # on a loaded machine the program has given up before
                    answer(connections[-1], ended)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield connections
        ended.set()
        thread.join(5)
        for each in connections:
            each.close()


def replying(make):
    def answer(connection, ended):
        magic, number, *_ = REQUEST.unpack(connection.recv(REQUEST.size))
        connection.send(make(magic, number))

    return answer


BROKEN = {
    "silent": lambda connection, ended: None,
    "slow": lambda connection, ended: ended.wait(1),
    "closes": lambda connection, ended: connection.close(),
    "another request's reply": replying(lambda magic, number: REPLY.pack(magic, number + 1, 50_000)),
    "another protocol": replying(lambda magic, number: REPLY.pack(1, number, 50_000)),
    "a port of others": replying(lambda magic, number: REPLY.pack(magic, number, 4791)),
    "a large port": replying(lambda magic, number: REPLY.pack(magic, number, 2**32 - 1)),
    "short": replying(lambda magic, number: b"\0"),
    "empty": replying(lambda magic, number: b""),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
def test_a_broken_agent_is_asked_once_and_the_program_runs_on(run, tmp_path, answer):
    with broken_agent(tmp_path / "socket", answer) as connections:
        labels, errors, _ = run(str(tmp_path / "socket"), label=77, deadline_ms=None)
    assert (labels, errors) == ([77] * QUEUE_PAIRS, SKIPS)
    assert len(connections) == 1


@pytest.mark.parametrize("text", ["", "0", "-1", "60001", "99999999999999999999", "9x"])
def test_a_deadline_that_is_none_leaves_the_default(run, tmp_path, text):
    with broken_agent(tmp_path / "socket", BROKEN["silent"]):
        _, errors, spent_ns = run(str(tmp_path / "socket"), count=2, deadline_ms=text)
    assert errors == SKIPS
    assert spent_ns >= 50_000_000


@pytest.mark.parametrize("kind", ["absent", "dead", "too long"])
def test_without_an_agent_the_program_runs_on(run, tmp_path, kind):
    path = tmp_path / ("x" * 200 if kind == "too long" else "socket")
    if kind == "dead":
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as gone:
            gone.bind(str(path))
    labels, errors, _ = run(str(path), label=77)
    assert labels == [77] * QUEUE_PAIRS
    assert errors == ("" if kind == "too long" else SKIPS)


def test_the_shim_needs_no_other_library(shim):
    needed = subprocess.run(["readelf", "-d", shim], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in needed


def test_without_a_compiler_the_message_names_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrerequisiteError, match="apt-get install gcc"):
        port_shim.shim_library(tmp_path / "cache")


def test_a_library_that_others_can_write_is_compiled_again(tmp_path):
    library = port_shim.shim_library(tmp_path)
    library.write_bytes(b"not ours")
    library.chmod(0o777)
    assert port_shim.shim_library(tmp_path) == library
    assert library.read_bytes().startswith(b"\x7fELF")
