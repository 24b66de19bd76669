"""The first lines of the `heddle` command, and its last: what happens before imports and after the output."""

import os
import sys

INTERRUPTED = 130
OFFLINE = ("check", "import", "plan", "suggest")
"""Commands that leave no thread, child process or open file behind."""
HOOKS = (["slurm", "prolog"], ["slurm", "epilog"])
"""Commands that a job waits for: the command line itself takes a tenth of a second to import."""


def main() -> None:
    """Import the command line and run it; an interrupt during the imports prints no traceback.

    After an offline command the process ends at once: the interpreter would spend 0.15 s releasing compiled code.
    """
    if sys.argv[1:] in HOOKS:
        from heddle.programs.console.slurm import hook

        return hook.wake(os.environ.get(hook.VARIABLE) or hook.SOCKET)
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        return print(f"heddle {version('heddle')}")
    try:
        from heddle.programs.console.main import main as run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    try:
        run()
    except SystemExit as ended:
        if sys.argv[1:2] and sys.argv[1] in OFFLINE and isinstance(ended.code, int):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.code)
        raise
