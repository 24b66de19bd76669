"""The `heddle` command: errors, signals and exit statuses. The commands themselves are listed in `registry`."""

import gc
import io
import os
import signal
import sys
from types import FrameType

import typer

from heddle.controller.model.error import HeddleError
from heddle.programs.console.registry import LazyGroup

# gRPC's core logs to standard error where an address is taken or a peer does not speak gRPC. We report these ourselves.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# Pydantic would search every installed package for plugins; there are none for it here.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

app = LazyGroup(
    name="heddle",
    help="Plans congestion-free paths for the flows of GPU clusters, proves how good they are, and steers them by "
    "OpenFlow 1.3, the RoCEv2 source port or SRv6. Start with `heddle demo`, or offline with `heddle plan`. "
    "`heddle --version` prints the version.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _terminate(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


# Typer contains click (under a private name since 0.20): the base of its usage errors is found by inheritance.
_UsageProblem: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
INTERRUPTED = 130
COLLECTION_THRESHOLD = 50_000


def _discard_output() -> int:
    """Redirect standard output to /dev/null, so that Python's last flush succeeds; return the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def main() -> None:
    """Run the command line. An error is printed as one line per problem and sets the exit status of the contract."""
    signal.signal(signal.SIGTERM, _terminate)
    # What is imported stays. At Python's threshold of 700 objects, to walk it took a tenth of what `heddle run` needs.
    gc.set_threshold(COLLECTION_THRESHOLD)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may hold letters that the terminal has not
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except HeddleError as error:
        for line in str(error).splitlines():
            print(f"heddle: {line}", file=sys.stderr)
        status = error.exit_status
    except _UsageProblem as wrong:
        wrong.show()  # type: ignore[attr-defined]
        status = wrong.exit_code  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except BrokenPipeError:
        status = _discard_output()
    except OSError as error:
        print(f"heddle: {error}", file=sys.stderr)
        status = _discard_output()
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
