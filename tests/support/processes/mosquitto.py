"""A private mosquitto on a free port of loopback, with a directory of its own."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.free_ports import free_ports

START_TIMEOUT_S = 10.0
PROGRAM = shutil.which("mosquitto") or "/usr/sbin/mosquitto"


def free_port() -> int:
    return free_ports(1)[0]


class Mosquitto:
    """A broker that can be killed and restarted on the same port."""

    def __init__(self, config: Path, port: int) -> None:
        self.port, self._config = port, config
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._process = subprocess.Popen([PROGRAM, "-c", str(self._config)], stderr=subprocess.DEVNULL)
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < end, "mosquitto did not start"
                assert self._process.poll() is None, "mosquitto ended"
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_TIMEOUT_S)
            self._process = None


@contextmanager
def mosquitto(users: dict[str, str] | None = None, lines: str = "") -> Iterator[Mosquitto]:
    """Run a broker; `users` are names and passwords (default: anonymous access), `lines` are added to its config."""
    directory = Path(tempfile.mkdtemp(prefix="heddle-mosquitto-"))
    password_file = None
    if users:
        password_file = directory / "passwords"
        password_file.touch(mode=0o644)
        for name, password in users.items():
            subprocess.run(["mosquitto_passwd", "-b", str(password_file), name, password], check=True)
        password_file.chmod(0o644)
    directory.chmod(0o777)  # mosquitto drops root privileges
    port, config = free_port(), directory / "mosquitto.conf"
    access = f"allow_anonymous false\npassword_file {password_file}" if password_file else "allow_anonymous true"
    config.write_text(
        f"listener {port} 127.0.0.1\n{access}\npersistence false\nset_tcp_nodelay true\n"
        f"{lines}max_queued_messages 10000\nlog_dest file {directory / 'log'}\n"
    )
    try:
        with mosquitto_by(config, port) as broker:
            yield broker
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def mosquitto_by(config: Path, port: int) -> Iterator[Mosquitto]:
    """Run a broker by a configuration that listens on this port of loopback."""
    broker = Mosquitto(config, port)
    try:
        yield broker
    finally:
        broker.kill()
