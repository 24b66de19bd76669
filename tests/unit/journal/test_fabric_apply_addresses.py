"""`heddle fabric apply` with TLS, and on a socket file: the next life serves at the same address."""

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import yaml

from heddle.controller.config.load import parse_fabric
from heddle.foundation.channel import channel_to
from heddle.foundation.identity import TLS_VARIABLE, Role
from heddle.foundation.tls_files import Tls, TlsFiles
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.certificates import authority, files_of
from tests.support.controllers.controller_process import Controller
from tests.support.fabrics.grown_files import LEAF_MORE, YARD
from tests.support.processes.running_switches import switches

OURS = authority("yard")
GROWN = parse_fabric(LEAF_MORE, "grown")
LIMIT_S = 60.0


def applied(server: str, file: Path, holder: TlsFiles | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command, with the certificate of a holder."""
    command = [sys.executable, "-m", "heddle.programs.console.main", "fabric", "apply", str(file), "--server", server]
    environment = {key: value for key, value in os.environ.items() if key != TLS_VARIABLE}
    if holder is not None:
        environment[TLS_VARIABLE] = str(holder.certificate.parent)
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment)


def context_of(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.certificate, files.key)
    return context


@contextmanager
def reader(server: str, tls: Tls | None = None) -> Iterator[list[str]]:
    """Read by one channel all the time while the context lasts; yields why reads have failed."""
    failed: list[str] = []
    over = threading.Event()

    def read() -> None:
        with channel_to(server, (), tls) as channel:
            fabric = rpc.FabricServiceStub(channel)
            while not over.wait(0.02):
                try:
                    fabric.GetTopology(pb.GetTopologyRequest(), timeout=LIMIT_S)
                except grpc.RpcError as error:
                    failed.append(f"{error.code()}: {error.details()}")

    reading = threading.Thread(target=read)
    reading.start()
    try:
        yield failed
    finally:
        over.set()
        reading.join()


def refusal(server: str, tls: Tls | None = None) -> grpc.StatusCode:
    with channel_to(server, (), tls) as channel, pytest.raises(grpc.RpcError) as why:
        rpc.FabricServiceStub(channel).ApplyFabric(pb.ApplyFabricRequest(fabric=LEAF_MORE), timeout=LIMIT_S)
    return why.value.code()


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    """The fabric file that a controller starts with, and another."""
    found = tmp_path / "yard.yaml", tmp_path / "grown.yaml"
    for file, text in zip(found, (YARD, LEAF_MORE), strict=True):
        file.write_text(text)
    return found


def in_force(said: subprocess.CompletedProcess[str], file: Path) -> bool:
    return (said.returncode, said.stderr) == (0, "") and said.stdout.endswith(
        f"in force: the controller serves {file}\n"
    )


def test_with_tls_only_an_operator_changes_the_fabric_and_the_next_life_serves_with_the_same_certificates(
    files, tmp_path
):
    file, grown = files
    own = files_of(OURS, Role.CONTROLLER, "c1", tmp_path / "controller")
    shown = {name: str(getattr(own, name)) for name in ("certificate", "key", "ca")}
    config = tmp_path / "heddle.yaml"
    config.write_text(yaml.safe_dump({"tls": shown}))
    holders = {role: files_of(OURS, role, "ada", tmp_path / role) for role in Role if not role.serves}
    of_switches = {
        each.id: context_of(files_of(OURS, Role.SWITCH, each.id, tmp_path / each.id)) for each in GROWN.switches
    }
    operator = Tls(holders[Role.OPERATOR], pytest.fail)
    controller = Controller(file, more=("--config", str(config), "--state", str(tmp_path / "state")), tls=operator)
    try:
        with switches(GROWN, controller.openflow, of_switches) as fakes:
            controller.wait_in_force(parse_fabric(YARD, "yard"))
            for role in set(holders) - {Role.OPERATOR}:
                assert refusal(controller.grpc, Tls(holders[role], pytest.fail)) is grpc.StatusCode.PERMISSION_DENIED
            assert len(controller.fabric.GetTopology(pb.GetTopologyRequest()).switches) == 5
            with reader(controller.grpc, operator) as failed:
                assert in_force(applied(controller.grpc, grown, holders[Role.OPERATOR]), grown)
                controller.wait_in_force(GROWN)
            assert len(failed) <= 1, "at most the call that is under way when the former life ends"
            fakes.hang_up("leaf1")
            controller.wait_in_force(GROWN)
            viewer = Tls(holders[Role.VIEWER], pytest.fail)
            assert refusal(controller.grpc, viewer) is grpc.StatusCode.PERMISSION_DENIED
            assert refusal(controller.grpc) is grpc.StatusCode.UNAVAILABLE, "a next life requires a certificate too"
        assert controller.end() == 0
    finally:
        if controller.process.poll() is None:
            controller.kill()


def test_a_socket_file_is_reachable_all_the_time_and_gone_at_the_end(files, tmp_path):
    file, grown = files
    server, socket = f"unix:{tmp_path}/grpc", tmp_path / "grpc"
    controller = Controller(file, more=("--grpc", server, "--state", str(tmp_path / "state")))
    try:
        assert controller.grpc == server
        with switches(GROWN, controller.openflow), reader(server) as failed:
            controller.wait_in_force(parse_fabric(YARD, "yard"))
            assert in_force(applied(server, grown), grown)
            served = {each.id for each in controller.fabric.GetTopology(pb.GetTopologyRequest()).switches}
            assert "leaf4" in served, "the reply comes once the new fabric is served"
            assert socket.stat().st_mode & 0o777 == 0o600
        assert len(failed) <= 1, "at most the call that is under way when the former life ends"
        assert controller.end() == 0
        assert not socket.exists()
    finally:
        if controller.process.poll() is None:
            controller.kill()
