"""The end of a service, without the interpreter's shutdown."""

import logging
import os
import sys
from typing import NoReturn


def end_service() -> NoReturn:
    """End this process with status 0, once everything is closed.

    The interpreter would take 0.2 to 0.5 s to free what was imported and compiled, object by object.
    """
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
