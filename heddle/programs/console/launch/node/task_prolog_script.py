"""The script that Slurm runs as TaskProlog: by Perl where it is installed, else `task_prolog.py`, which does the same.

It runs before each task of each node, so its start counts. The Perl text loads no module. Both end with status 0.
"""

import os
import shlex
import socket
import sys

from heddle.programs.console.launch.node import task_prolog
from heddle.programs.console.slurm.hook_script import PERL

_PERL = """\
#!/bin/sh
unset PERL5OPT
{perl} -x "$0" 2>/dev/null
exit 0
#!perl
# Announce the task to the agent of this node, and print what gives it its ports. Slurm cancels a task whose prolog
# fails: so the shell ends with 0 where the environment, which is the user's, keeps Perl from starting. Perl warns of a
# locale that the node lacks, which is not for the task to show.
$SIG{{PIPE}} = 'IGNORE';
$path = pack('H*', '{path}');
$library = pack('H*', '{library}');
if (!exists $ENV{{HEDDLE_PORT_SOCKET}} && -r $library && socket(AGENT, {family}, {kind}, 0)
    && connect(AGENT, pack('S a*', {family}, $path))
    && send(AGENT, pack('L L a16 a16 L L', {magic}, 1, '', '', 0, 0), 0)) {{
    vec($ready = '', fileno(AGENT), 1) = 1;
    if (select($ready, undef, undef, {timeout_s:g}) > 0 && defined recv(AGENT, $reply, 64, 0) && length $reply) {{
        $audit = length $ENV{{LD_AUDIT}} ? "$ENV{{LD_AUDIT}}:$library" : $library;
        print "export HEDDLE_PORT_SOCKET=$path\\nexport LD_AUDIT=$audit\\n";
    }}
}}
exit 0;
"""


def task_prolog_script(path: str, library: str, perl: str | None = PERL) -> str:
    """Return the text of an executable file that prints the variables of a task, for a socket and a library."""
    if perl is None:
        command = shlex.join([sys.executable, "-I", "-S", task_prolog.__file__, path, library])
        return f"#!/bin/sh\n{command} 2>/dev/null\nexit 0\n"
    return _PERL.format(
        perl=perl,
        family=int(socket.AF_UNIX),
        kind=int(socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK),
        path=os.fsencode(path).hex(),
        library=os.fsencode(library).hex(),
        magic=task_prolog.MAGIC,
        timeout_s=task_prolog.TIMEOUT_S,
    )
