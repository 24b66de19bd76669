"""A private Redis server on a unix socket, with a directory of its own."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

START_TIMEOUT_S = 10.0
PROGRAM = shutil.which("redis-server") or "/usr/bin/redis-server"
COUNTERS_DB = 2


class RedisServer:
    """A server without persistence that can be killed and restarted on the same socket."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "redis.sock"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket), db=COUNTERS_DB, retry=Retry(NoBackoff(), 0))

    def start(self) -> None:
        self._process = subprocess.Popen(
            [PROGRAM, "--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no"],
            cwd=self._directory,
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with self.client() as client:
                    client.ping()
            except redis.RedisError:
                assert time.monotonic() < end, "redis-server did not start"
                assert self._process.poll() is None, "redis-server ended"
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_TIMEOUT_S)
            self._process = None


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """Run a server for the duration of the block."""
    directory = Path(tempfile.mkdtemp(prefix="heddle-redis-"))
    server = RedisServer(directory)
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)


class SonicCounters:
    """COUNTERS_DB as SONiC's syncd and orchagent fill it: 64 ports of four lanes, eight queues each."""

    def __init__(self, client: redis.Redis, ports: int = 64, first_oid: int = 0x1000000000001) -> None:
        self.client = client
        self.ports = {f"Ethernet{4 * at}": f"oid:{first_oid + at:#x}" for at in range(ports)}
        self.queues = {
            f"{alias}:{index}": f"oid:{first_oid + 0x5000000000000 + 16 * at + index:#x}"
            for at, alias in enumerate(self.ports)
            for index in range(10)  # 8 and 9 are multicast queues
        }

    def write_maps(self) -> None:
        pipe = self.client.pipeline(transaction=False)
        pipe.delete("COUNTERS_PORT_NAME_MAP", "COUNTERS_QUEUE_NAME_MAP")
        pipe.hset("COUNTERS_PORT_NAME_MAP", mapping=self.ports)
        pipe.hset("COUNTERS_QUEUE_NAME_MAP", mapping=self.queues)
        pipe.execute()

    def write(self, base: int) -> None:
        """Write every counter; values differ between ports, priorities and kinds, and grow with `base`."""
        pipe = self.client.pipeline(transaction=False)
        for at, oid in enumerate(self.ports.values()):
            values = {
                "SAI_PORT_STAT_IF_OUT_OCTETS": base * 1000 + at,
                "SAI_PORT_STAT_IF_IN_OCTETS": base * 2000 + at,
                "SAI_PORT_STAT_IF_OUT_UCAST_PKTS": base,
                "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS": 1,
                "SAI_PORT_STAT_IF_IN_UCAST_PKTS": base * 2,
                "SAI_PORT_STAT_IF_IN_NON_UCAST_PKTS": "N/A",
                "SAI_PORT_STAT_IF_IN_DISCARDS": 3,
                "SAI_PORT_STAT_IF_OUT_DISCARDS": 4,
                "SAI_PORT_STAT_IF_IN_ERRORS": 99,
            }
            for priority in range(8):
                values[f"SAI_PORT_STAT_PFC_{priority}_RX_PKTS"] = base + priority
                values[f"SAI_PORT_STAT_PFC_{priority}_TX_PKTS"] = base + 10 * priority
                values[f"SAI_PORT_STAT_PFC_{priority}_RX_PAUSE_DURATION_US"] = 7 * base
            pipe.hset(f"COUNTERS:{oid}", mapping=values)
        for name, oid in self.queues.items():
            index = int(name.rpartition(":")[2])
            pipe.hset(
                f"COUNTERS:{oid}",
                mapping={
                    "SAI_QUEUE_STAT_PACKETS": base * 10 + index,
                    "SAI_QUEUE_STAT_BYTES": base * 10000 + index,
                    "SAI_QUEUE_STAT_DROPPED_PACKETS": index,
                    "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": base + index,
                },
            )
            pipe.hset(f"USER_WATERMARKS:{oid}", "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", str(50_000 + index))
        pipe.execute()
