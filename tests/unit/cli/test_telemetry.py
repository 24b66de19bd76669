"""`heddle telemetry record` and `replay`."""

import asyncio
import json
import threading

import aiomqtt
import pytest

from heddle.telemetry.samples.recording import MAGIC, Recorded, frame, read
from heddle.telemetry.samples.sample import encode
from heddle.telemetry.samples.topic import ports_topic, status_topic
from tests.support.processes.mosquitto import mosquitto
from tests.unit.telemetry.builders import START, S, queue, sample

TOPIC = ports_topic("lab", "leaf1")


def messages(periods=6):
    """A queue that marks half of its packets, a sample a second."""
    for n in range(periods):
        marked = queue(packets=100 * n, ecn_marked_packets=50 * n)
        yield Recorded(START + n * S, TOPIC, encode([sample(at=n, sequence=n, queues=[marked])]))


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "stream.heddle"
    path.write_bytes(MAGIC + b"".join(map(frame, messages())))
    return path


def test_a_recording_is_replayed_through_the_detector(heddle, recording):
    status, out, _ = heddle("telemetry", "replay", recording, "--json")
    *signals, end = map(json.loads, out.splitlines())
    assert status == 0
    assert [(one["kind"], one["port"], one["priority"]) for one in signals] == [("congestion", "leaf1:1", 3)]
    assert end == {"messages": 6, "samples": 6, "odd_input": {}}


def test_the_same_recording_gives_the_same_output_twice(heddle, recording):
    assert heddle("telemetry", "replay", recording) == heddle("telemetry", "replay", recording)


def test_a_fabric_file_determines_the_ports(heddle, recording, files):
    fabric = files(
        "small.yaml", "version: 1\nname: lab\ngenerate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1}\n"
    )
    status, out, _ = heddle("telemetry", "replay", recording, "--fabric", fabric, "--json")
    assert status == 0
    assert json.loads(out.splitlines()[-1])["samples"] == 6


def test_a_truncated_recording_is_read_up_to_its_end(heddle, recording):
    recording.write_bytes(recording.read_bytes()[:-3])
    status, out, err = heddle("telemetry", "replay", recording, "--json")
    assert status == 0
    assert json.loads(out.splitlines()[-1])["messages"] == 5
    assert err.count("truncated at byte") == 1


@pytest.mark.parametrize(
    ("content", "said"), [(b"junk", "not a recording of `heddle telemetry record`"), (None, "No such file")]
)
def test_an_invalid_recording_is_one_line(heddle, tmp_path, content, said):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    status, _, err = heddle("telemetry", "replay", path)
    assert status == 2
    assert said in err


def test_a_period_out_of_range_is_refused_with_its_option(heddle, recording):
    status, _, err = heddle("telemetry", "replay", recording, "--period-ms", "1")
    assert status == 2
    assert "--period-ms: must be between" in err


def test_a_file_that_exists_is_not_overwritten(heddle, recording):
    before = recording.read_bytes()
    status, _, err = heddle("telemetry", "record", recording, "--seconds", "1")
    assert status == 2
    assert "exists already" in err
    assert recording.read_bytes() == before


def test_no_broker_is_one_line(heddle, tmp_path):
    status, _, err = heddle("telemetry", "record", tmp_path / "new", "--broker", "127.0.0.1:1", "--seconds", "5")
    assert status == 1
    assert "127.0.0.1:1 is lost" in err


def test_a_stream_is_recorded_and_published_again(heddle, tmp_path, recording):
    path = tmp_path / "again.heddle"
    with mosquitto() as broker:
        address, ended = f"127.0.0.1:{broker.port}", threading.Event()

        async def publish():
            async with aiomqtt.Client("127.0.0.1", broker.port) as agent:
                await agent.publish(status_topic("lab", "a"), b"online", qos=1, retain=True)
                while not ended.is_set():
                    for message in messages():
                        await agent.publish(message.topic, message.payload)
                    await asyncio.sleep(0.05)

        agent = threading.Thread(target=lambda: asyncio.run(publish()))
        agent.start()
        try:
            status, out, _ = heddle(
                "telemetry", "record", path, "--broker", address, "--max-bytes", "3000", "--seconds", "20", "--json"
            )
        finally:
            ended.set()
            agent.join()
        assert status == 0
        assert json.loads(out)["full"]
        with path.open("rb") as file:
            kept = list(read(file))
        assert {message.topic for message in kept if isinstance(message, Recorded)} == {TOPIC, status_topic("lab", "a")}
        status, out, _ = heddle("telemetry", "replay", recording, "--broker", address, "--speed", "1000", "--json")
        assert status == 0
        assert json.loads(out) == {"messages": 6}
