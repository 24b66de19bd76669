"""A lock file is its owner's alone, and a long wait for it is reported with its holder."""

import fcntl
import os
import threading

from heddle.mininet_topos.demo.measurement_lock import measurement_lock
from heddle.mininet_topos.host import locks
from heddle.mininet_topos.host.locks import holding, open_lock, write_holder


def test_lock_files_are_accessible_to_their_owner_alone(tmp_path):
    (tmp_path / "old.lock").touch(0o666)
    for name in ("old.lock", "new.lock"):
        with holding(tmp_path / name):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    with measurement_lock(tmp_path / "demo.lock", 0, print):
        assert (tmp_path / "demo.lock").stat().st_mode & 0o777 == 0o600


def test_a_long_wait_is_reported_with_the_process_that_holds_the_lock(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(locks, "QUIET_S", 0.0)
    path = tmp_path / "registry.lock"
    held = open_lock(path)
    fcntl.flock(held, fcntl.LOCK_EX)
    write_holder(held)
    release = threading.Timer(0.1, os.close, (held,))
    release.start()
    with holding(path):
        assert capsys.readouterr().err == f"heddle: {path} is held by process {os.getpid()}; waiting for it\n"
    release.join()
