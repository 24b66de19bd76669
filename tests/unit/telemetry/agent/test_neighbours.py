"""What lldpd hears goes with the counters of a source, and a daemon that fails leaves the counters as they are."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from heddle.telemetry.agent.neighbours import lldpd
from heddle.telemetry.agent.neighbours.beside import WithNeighbours
from heddle.telemetry.agent.neighbours.lldpd import LldpdNeighbours
from heddle.telemetry.agent.source import DeviceSamples, SourceError
from heddle.telemetry.neighbours.heard import Heard, Sender
from heddle.telemetry.samples.sample import PortSample
from heddle.telemetry.samples.topic import Source

HERE = Heard("swp1", (Sender("spine1", "", ("swp7",)),))
PORT_OF = {"swp1": "leaf1:1", "swp2": "leaf1:2"}
DOCUMENT = {
    "lldp": [
        {
            "interface": [
                {"name": "swp1", "age": "0 day, 00:00:05", "chassis": [{"name": [{"value": "spine1"}]}],
                 "port": [{"id": [{"type": "ifname", "value": "swp7"}]}]},
                {"name": "mgmt0", "chassis": [{"name": [{"value": "console"}]}], "port": []},
            ]
        }
    ]
}  # fmt: skip


class Counters:
    name, reads_per_period = "leaf1", 1

    def __init__(self):
        self.closed = False

    async def read(self, now_unix_ns):
        samples = [PortSample(port=port, timestamp_unix_ns=now_unix_ns) for port in PORT_OF.values()]
        return [DeviceSamples(Source.SWITCH, "leaf1", samples)]

    async def close(self):
        self.closed = True


class Reader:
    """Returns or raises what the test says, and counts the readings."""

    def __init__(self, *replies):
        self.replies, self.readings = list(replies), 0

    async def __call__(self):
        self.readings += 1
        reply = self.replies.pop(0) if self.replies else {}
        if isinstance(reply, Exception):
            raise reply
        return reply


async def heard(source):
    """Return what the samples of one reading say, after a reading of neighbours beside it has ended."""
    (device,) = await source.read(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return {sample.port: sample.heard for sample in device.samples if sample.heard is not None}


async def test_what_is_heard_goes_with_one_sample_of_each_port():
    counters = Counters()
    source = WithNeighbours(counters, Reader({"leaf1:1": HERE}), period_s=60.0)
    assert await heard(source) == {}, "the first counters wait for no daemon"
    assert await heard(source) == {"leaf1:1": HERE}
    assert await heard(source) == {}
    await source.close()
    assert counters.closed


async def test_it_is_read_again_each_period_and_a_daemon_that_fails_says_nothing(caplog):
    reader = Reader(SourceError("no lldpd here"), {"leaf1:1": HERE})
    source = WithNeighbours(Counters(), reader, period_s=0.0)
    assert await heard(source) == {}
    assert "no lldpd here" in caplog.text
    assert await heard(source) == {}
    assert await heard(source) == {"leaf1:1": HERE}
    assert reader.readings == 3
    await source.close()


async def test_a_change_that_a_daemon_reports_is_read_at_once_and_a_flood_of_them_seldom():
    reader = Reader({}, {"leaf1:1": HERE})
    watched = []

    async def watch(changed):
        watched.append(changed)
        await asyncio.Event().wait()

    source = WithNeighbours(Counters(), reader, period_s=60.0, watch=watch)
    assert await heard(source) == {}
    watched[0].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await heard(source) == {"leaf1:1": HERE}, "with the next samples, long before the daemon is read again"
    for _ in range(100):
        watched[0].set()
        await asyncio.sleep(0)
    assert reader.readings == 2
    await source.close()
    assert len(watched) == 1


async def test_a_programming_error_of_a_watch_ends_the_agent():
    async def watch(changed):
        raise ZeroDivisionError("a fault")

    source = WithNeighbours(Counters(), Reader(), watch=watch)
    await heard(source)
    with pytest.raises(ZeroDivisionError):
        await source.read(2)
    with pytest.raises(ZeroDivisionError):
        await source.close()


async def test_a_programming_error_of_a_reader_ends_the_agent():
    source = WithNeighbours(Counters(), Reader(ZeroDivisionError("a fault")), period_s=0.0)
    await heard(source)
    with pytest.raises(ZeroDivisionError):
        await source.read(2)


@pytest.fixture
def lldpcli(tmp_path, monkeypatch):
    """Return a function that makes a program in lldpcli's place, which runs a line of shell."""

    def make(line):
        path = tmp_path / "lldpcli"
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
        monkeypatch.setattr(lldpd, "PROGRAM", str(path))
        return LldpdNeighbours(Path("/run/lldpd.socket"), PORT_OF)

    return make


async def test_lldpd_is_asked_at_its_socket_and_ports_without_a_neighbour_hear_nothing(lldpcli, tmp_path):
    (tmp_path / "said").write_text(json.dumps(DOCUMENT))
    found = await lldpcli(f'echo "$@" > {tmp_path}/words; cat {tmp_path}/said')()
    assert found == {"leaf1:1": HERE, "leaf1:2": Heard("swp2")}
    assert (tmp_path / "words").read_text() == "-u /run/lldpd.socket -f json0 show neighbors\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [("exit 1", "exit status 1"), ("echo no", "no JSON"), ("echo '{}'", "json0"), ("echo '[[[['", "no JSON")],
)
async def test_what_lldpd_does_not_say_is_a_fault_of_the_source(lldpcli, line, why):
    with pytest.raises(SourceError, match=why):
        await lldpcli(line)()


async def test_where_lldpd_is_not_installed_is_a_fault_of_the_source(monkeypatch):
    monkeypatch.setattr(lldpd, "PROGRAM", "/nothing/lldpcli")
    with pytest.raises(SourceError, match="No such file"):
        await LldpdNeighbours(Path("/run/lldpd.socket"), PORT_OF)()


async def test_lldpd_reports_changes_until_its_client_ends_which_is_started_again(lldpcli, tmp_path, monkeypatch):
    monkeypatch.setattr(lldpd, "RETRY_S", 0.0)
    changed = asyncio.Event()
    neighbours = lldpcli(f'echo "$@" >> {tmp_path}/words; echo a change; read forever < {tmp_path}/pipe')
    os.mkfifo(tmp_path / "pipe")
    watching = asyncio.create_task(neighbours.watch(changed))
    for _ in range(2):
        await changed.wait()
        changed.clear()
        with (tmp_path / "pipe").open("w"):  # the client ends
            pass
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert (tmp_path / "words").read_text().startswith("-u /run/lldpd.socket -f json0 watch\n" * 2)


async def test_where_lldpd_is_not_installed_nothing_changes(monkeypatch):
    monkeypatch.setattr(lldpd, "PROGRAM", "/nothing/lldpcli")
    changed = asyncio.Event()
    watching = asyncio.create_task(LldpdNeighbours(Path("/run/lldpd.socket"), PORT_OF).watch(changed))
    await asyncio.sleep(0.05)
    assert not watching.done()
    assert not changed.is_set()
    watching.cancel()
