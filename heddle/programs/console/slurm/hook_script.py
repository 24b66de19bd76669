"""The script that slurmctld runs as its hooks: by Perl where it is installed, which starts much faster than Python.

A job waits for the start of its hook, most of all on a busy host. The Perl text loads no module, so that Debian's
perl-base is enough; elsewhere `hook.py` does the same. Both end with status 0, also where nothing listens.
"""

import os
import shlex
import shutil
import socket
import sys

from heddle.programs.console.slurm import hook

PERL = shutil.which("perl", path=f"{os.defpath}:/usr/local/bin")
"""None where it is not installed. Slurm sets no PATH: scripts name their interpreter."""
_PERL = """\
#!{perl}
# Wake the agent of Heddle, and wait until it has planned the job; Slurm kills or requeues a job whose hook fails.
$SIG{{PIPE}} = 'IGNORE';
if (socket(AGENT, {family}, {kind}, 0) && connect(AGENT, pack('S a*', {family}, pack('H*', '{path}')))
    && syswrite(AGENT, "{wake}\\n")) {{
    vec($ready = '', fileno(AGENT), 1) = 1;
    select($ready, undef, undef, {deadline_s:g});
}}
exit 0;
"""
_PYTHON = """\
#!/bin/sh
{command} >/dev/null 2>&1
exit 0
"""


def hook_script(path: str, deadline_s: float, perl: str | None = PERL) -> str:
    """Return the text of an executable file that wakes the agent at a socket and waits, at most `deadline_s`.

    The socket does not block: where more hooks wait than the agent's backlog holds, a job starts without a plan.
    """
    if perl is None:
        command = shlex.join([sys.executable, "-I", "-S", hook.__file__, path, f"{deadline_s:g}"])
        return _PYTHON.format(command=command)
    return _PERL.format(
        perl=perl,
        family=int(socket.AF_UNIX),
        kind=int(socket.SOCK_STREAM | socket.SOCK_NONBLOCK),
        path=os.fsencode(path).hex(),
        wake=hook.WAKE.decode().strip(),
        deadline_s=deadline_s,
    )
