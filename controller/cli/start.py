"""The first lines of the `heddle` command: an interrupt while the rest is being imported is no traceback."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Import the command line and run it."""
    try:
        from controller.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()
