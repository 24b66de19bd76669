"""`heddle demo` with a controller that has a planted fault: does the demo notice?

python -m tests.support.planted_demo MODULE demo [OPTION …]      MODULE: such as tests.fakes.controllers.never_replans
"""

import sys

from heddle.mininet_topos.services import controller_process
from heddle.programs.console.main import main

if __name__ == "__main__":
    controller_process.CONTROLLER = (sys.executable, "-m", sys.argv.pop(1))
    main()
