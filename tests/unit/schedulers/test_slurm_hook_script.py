"""The script that slurmctld runs as its hooks, by Perl and by Python: it waits for a pass, and always ends well."""

import socket
import subprocess

import pytest

from heddle.programs.console.slurm import hook
from heddle.programs.console.slurm.hook_script import PERL, hook_script
from heddle.programs.console.slurm.wake_socket import WakeSocket

TIMEOUT_S = 60.0


@pytest.fixture(params=["perl", "python"])
def started(request, tmp_path):
    """Return a function that starts the script for a socket, without an environment, as slurmctld does."""
    if request.param == "perl" and PERL is None:
        pytest.skip("no perl")

    def start(path, deadline_s=TIMEOUT_S):
        script = tmp_path / "hook"
        script.write_text(hook_script(str(path), deadline_s, PERL if request.param == "perl" else None))
        script.chmod(0o755)
        return subprocess.Popen([script], env={}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    return start


def ended(process):
    return process.communicate(timeout=TIMEOUT_S)[0], process.returncode


def test_a_hook_waits_for_the_pass_that_began_after_it(started, tmp_path):
    sockets = WakeSocket(tmp_path / "it's a $place" / "s")
    process = started(tmp_path / "it's a $place" / "s")
    waiting = sockets.wait(TIMEOUT_S)
    assert waiting[0].recv(100) == hook.WAKE
    assert process.poll() is None
    sockets.release(waiting)
    assert ended(process) == (b"", 0)
    sockets.close()


@pytest.mark.parametrize("path", ["none", "a" * 300, "folder", "file"])
def test_a_hook_without_an_agent_ends_at_once_and_well(started, tmp_path, path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert ended(started(tmp_path / path)) == (b"", 0)


def test_a_hook_ends_by_its_deadline_where_the_agent_hangs_and_well_where_it_ends(started, tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen(8)
        assert ended(started(tmp_path / "s", 0.1)) == (b"", 0)
        process = started(tmp_path / "s")
        silent.accept()[0].close()  # of the first
        silent.accept()[0].close()
    assert ended(process) == (b"", 0)


def test_a_printed_hook_starts_perl_where_it_is_installed():
    assert hook_script("/s", 2.5).startswith("#!/bin/sh\n" if PERL is None else f"#!{PERL}\n")
