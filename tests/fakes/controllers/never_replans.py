"""A controller that notices failures and congestion, and leaves every running job where it is.

    python -m tests.fakes.controllers.never_replans run FABRIC …

Work that would plan running jobs again ends at once without a plan. All else is as in the real controller.
"""

from heddle.controller.brain import decide
from heddle.controller.brain.install import Outcome
from heddle.controller.brain.lifecycle import WorkKind
from heddle.controller.brain.state import ReplanWork, State
from heddle.programs.console.main import main


def _leave_all(state: State, work: ReplanWork) -> Outcome:
    return state, ()


if __name__ == "__main__":
    handlers = dict(decide.WORK_HANDLERS)
    handlers[WorkKind.REPLAN] = handlers[WorkKind.REPLAN]._replace(start=_leave_all)
    decide.WORK_HANDLERS = handlers
    main()
