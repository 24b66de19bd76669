"""Output that cannot be written; tested in a separate process, because Python's last flush matters."""

import os
import socket
import subprocess
import sys

HEDDLE = [sys.executable, "-m", "heddle.programs.console.main"]


def test_a_full_disk_is_one_line_and_status_one(files, tmp_path):
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [*HEDDLE, "check", tmp_path / "fabric.yaml"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (ran.returncode, ran.stderr) == (1, "heddle: [Errno 28] No space left on device\n")


def test_a_name_that_the_terminal_cannot_encode_is_escaped(files):
    path = files("wrong.yaml", 'version: 1\nname: "\u65e5"\n')
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run([*HEDDLE, "check", path], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (2, "")
    assert r"name: '\u65e5' is no id" in ran.stdout


def test_a_reader_that_closes_the_pipe_causes_no_traceback(files, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run([*HEDDLE, "check", tmp_path / "fabric.yaml"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, "")


def test_a_taken_grpc_address_is_one_line(files, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*HEDDLE, "run", tmp_path / "fabric.yaml", "--openflow", "127.0.0.1:0", "--grpc", address]
        ran = subprocess.run([*command, "--http", "127.0.0.1:0"], capture_output=True, text=True)
    assert ran.stderr == f"heddle: gRPC cannot listen on {address}; is it in use? choose another by --grpc\n"
    assert (ran.returncode, ran.stdout) == (1, "")
