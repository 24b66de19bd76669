"""`heddle agent` on the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from heddle.telemetry.counter_page import PORT_FIELDS, QUEUE_FIELDS, CounterPageWriter
from tests.fakes.telemetry.telemetry_listener import listening
from tests.support.processes.mosquitto import PROGRAM, free_port, mosquitto

HEDDLE = [sys.executable, "-m", "heddle.programs.console.main"]
needs_broker = pytest.mark.skipif(
    not Path(PROGRAM).exists(), reason="Debian's mosquitto is not installed (scripts/setup all)"
)


def agent(*arguments):
    return subprocess.run([*HEDDLE, "agent", *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--source", "snmp"], "--source snmp: must be one of emulated, sonic, linux, ethtool"),
        (["--source", "emulated"], "--source emulated needs --lab DIR"),
        (["--source", "emulated", "--lab", ".", "--fabric", "no/such.yaml"], "no/such.yaml"),
        (["--source", "emulated", "--lab", ".", "--fabric", "a b"], "'a b' is not valid in a topic"),
        (["--source", "emulated", "--lab", ".", "--id", "a/b"], "'a/b' is not valid in a topic"),
        (["--source", "emulated", "--lab", ".", "--period", "1ms"], "--period 1ms: must be from 10ms to 3600s"),
        (["--source", "emulated", "--lab", ".", "--period", "soon"], "--period soon"),
        (["--source", "emulated", "--lab", ".", "--broker", "here"], "--broker here: must be HOST:PORT"),
        (["--source", "emulated", "--lab", ".", "--broker", "a:0"], "--broker a:0: must be HOST:PORT"),
        (["--source", "emulated", "--lab", ".", "--user", "me"], "--user and --password-file"),
        (["--source", "emulated", "--lab", ".", "--tls-ca", "/no/ca"], "--tls-ca"),
        (["--source", "emulated", "--lab", ".", "--user", "me", "--password-file", "/no/file"], "No such file"),
        (["--source", "sonic"], "needs one --switch"),
        (["--source", "sonic", "--switch", "a", "--redis", "localhost"], "--redis: must be a URL"),
        (["--source", "sonic", "--switch", "a", "--port-map", "/no/file"], "--port-map /no/file: No such file"),
        (["--source", "linux", "--switch", "a"], "needs one --switch NAME, and --port-map FILE"),
        (["--source", "ethtool"], "needs one --host"),
        (["--source", "ethtool", "--host", "h1"], "needs --nic NIC=DEVICE"),
        (["--source", "ethtool", "--host", "h1", "--nic", "a=eth0", "--lldpd", "h1="], "--lldpd h1=: must be lldpd's"),
        (["--source", "ethtool", "--host", "h1", "--nic", "eth0"], "--nic eth0: must be NIC=DEVICE"),
        (
            ["--source", "ethtool", "--host", "h1", "--nic", "a=eth0", "--controller", "a:1"],
            "--controller needs --source ethtool and a fabric file",
        ),
    ],
)
def test_an_invalid_option_is_refused_in_one_line(arguments, text, monkeypatch, capsys):
    from heddle.programs.console.main import main

    fabric = [] if "--fabric" in arguments else ["--fabric", "lab"]
    monkeypatch.setattr(sys, "argv", ["heddle", "agent", *fabric, *arguments])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, before)
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    assert text in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--device", "lo"], 2, "--host"),
        (["--host", "h1"], 2, "--device"),
        (["--host", "h1", "--device", "lo", "--device", "lo"], 2, "--device: one is given twice"),
        (["--host", "h1", "--device", "lo", "--controller", "here"], 2, "--controller here: must be ADDR:PORT"),
        (["--host", "h1", "--device", "eth999"], 1, "eth999: there is no such network device here; `ip link` lists"),
    ],
)
def test_a_probe_agent_that_cannot_start_says_why(arguments, status, text, monkeypatch, capsys):
    from heddle.programs.console.main import main

    monkeypatch.setattr(sys, "argv", ["heddle", "agent", "probe", *arguments])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == status
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["fabric", "source"])
def test_an_agent_needs_a_fabric_and_a_source(missing, monkeypatch, capsys):
    from heddle.programs.console.main import main

    given = {"fabric": "lab", "source": "emulated"} | {missing: None}
    arguments = [word for name, value in given.items() if value for word in (f"--{name}", value)]
    monkeypatch.setattr(sys, "argv", ["heddle", "agent", *arguments])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 2
    assert f"--{missing} is missing" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["Ethernet0", "Ethernet0 x", "Ethernet0 0", "Ethernet0 1 2", "Ethernet0 99999"])
def test_an_invalid_line_of_the_port_map_is_named(tmp_path, line):
    from heddle.controller.config.port_map import port_numbers
    from heddle.controller.model.error import InputError

    path = tmp_path / "ports"
    path.write_text(f"# SONiC's ports\nEthernet4 7  # the second\n\n{line}\n")
    with pytest.raises(InputError, match="ports:4: must be a SONiC port and its number"):
        port_numbers(path)


def test_a_port_map_gives_port_numbers(tmp_path):
    from heddle.controller.config.port_map import port_numbers

    path = tmp_path / "ports"
    path.write_text("Ethernet0 1\nEthernet4 2\n")
    assert [port_numbers(path).get(alias) for alias in ("Ethernet0", "Ethernet4", "Ethernet8")] == [1, 2, None]


@contextmanager
def a_lab(folder):
    """The files of a lab with two switches and no NIC, written once."""
    (folder / "nic").mkdir()
    writer = CounterPageWriter(folder / "counters", ("leaf1:1", "spine1:1"), boot_id=3)
    ports = np.zeros((2, len(PORT_FIELDS)), np.uint64)
    queues = np.zeros((2, 8, len(QUEUE_FIELDS)), np.uint64)

    def write():
        ports[:] += np.uint64(1)
        writer.write(ports, queues, time.time_ns())

    write()
    yield write
    writer.close()


@contextmanager
def started(folder, port, *arguments):
    """A running agent, ready; it is killed where it has not ended by itself."""
    command = [*HEDDLE, "agent", "--fabric", "lab", "--source", "emulated", "--lab", str(folder), "--period", "20ms"]
    process = subprocess.Popen(
        [*command, "--broker", f"127.0.0.1:{port}", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


@needs_broker
async def test_an_agent_publishes_a_lab_and_signs_off_on_sigterm(tmp_path):
    with mosquitto() as broker, a_lab(tmp_path):
        async with listening(broker.port) as heard:
            with started(tmp_path, broker.port, "--id", "watch") as (process, ready):
                assert ready["ready"] is True
                assert (ready["agent"], ready["fabric"], ready["broker"]) == (
                    "watch", "lab", f"127.0.0.1:{broker.port}",
                )  # fmt: skip
                await heard.until(lambda: heard.of("leaf1:1") and heard.of("spine1:1"))
                process.terminate()
                assert process.wait(20) == 0
            await heard.until(lambda: heard.statuses == [("watch", b"online"), ("watch", b"offline")])
    assert heard.of("leaf1:1")[0].tx_bytes == 1


@needs_broker
async def test_the_broker_publishes_offline_for_an_agent_that_was_killed(tmp_path):
    with mosquitto() as broker, a_lab(tmp_path) as write:
        async with listening(broker.port) as heard:
            with started(tmp_path, broker.port) as (process, ready):
                await heard.until(lambda: heard.of("leaf1:1"))
                process.send_signal(signal.SIGKILL)
                await heard.until(lambda: heard.statuses[-1] == (ready["agent"], b"offline"))
            last = heard.of("leaf1:1")[-1]
            write()
            with started(tmp_path, broker.port):
                await heard.until(lambda: heard.of("leaf1:1")[-1].tx_bytes == 2)
                assert heard.statuses[-1] == (ready["agent"], b"online")
    again = heard.of("leaf1:1")[-1]
    assert again.sequence > last.sequence
    assert again.boot_id == last.boot_id


def test_an_agent_without_a_broker_is_ready_and_ends_on_sigint(tmp_path):
    with a_lab(tmp_path), started(tmp_path, free_port()) as (process, ready):
        assert ready["ready"] is True
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
