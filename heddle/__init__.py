"""Heddle, a software-defined RDMA fabric controller, and its library: plans of RDMA flows without a controller.

    import heddle

    fabric = heddle.spine_leaf(spines=4, leaves=8, hosts_per_leaf=4)
    ring = heddle.Collective(kind=heddle.CollectiveKind.RING_ALL_REDUCE, size_bytes=10**9)
    job = heddle.Job(job_id="train", ranks=tuple(fabric.nic_by_id), collectives=(ring,))
    print(heddle.plan(fabric, [job]).certificate.max_link_utilisation)

The public names are those of `__all__`; docs/library.md explains them. Each is imported when it is first used, so that
`import heddle` costs nothing. All else below `heddle` may change with any version; docs/architecture.md has the
packages and their order.

Five packages are links to folders at the top of the repository. Each refuses another name than `heddle.…`: in a
checkout `import controller` would otherwise load a second copy of every module.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heddle.controller.config.load import load_fabric, load_jobs
    from heddle.controller.model.error import (
        AlreadyExistsError,
        BudgetExceededError,
        DeniedError,
        HeddleError,
        InputError,
        NoAdmissiblePlanError,
        NotFoundError,
        PlanError,
        PlannerError,
        PrerequisiteError,
        UnavailableError,
    )
    from heddle.controller.model.fabric import Fabric
    from heddle.controller.model.job import (
        Algorithm,
        Collective,
        CollectiveKind,
        FlowDemand,
        Incast,
        RankPair,
        Steering,
    )
    from heddle.controller.model.job import JobRequest as Job
    from heddle.controller.model.plan import Certificate, FlowPlan
    from heddle.controller.planner.proof.bound import Bound
    from heddle.library.fabrics import clos3, import_fabric, rail_optimised, spine_leaf
    from heddle.library.figures import Completion, Hashed, bound, completion, ecmp
    from heddle.library.plan import Plan, plan
    from heddle.library.what_if import WhatIf, what_if

__all__ = [
    "Algorithm",
    "AlreadyExistsError",
    "Bound",
    "BudgetExceededError",
    "Certificate",
    "Collective",
    "CollectiveKind",
    "Completion",
    "DeniedError",
    "Fabric",
    "FlowDemand",
    "FlowPlan",
    "Hashed",
    "HeddleError",
    "Incast",
    "InputError",
    "Job",
    "NoAdmissiblePlanError",
    "NotFoundError",
    "Plan",
    "PlanError",
    "PlannerError",
    "PrerequisiteError",
    "RankPair",
    "Steering",
    "UnavailableError",
    "WhatIf",
    "bound",
    "clos3",
    "completion",
    "ecmp",
    "import_fabric",
    "load_fabric",
    "load_jobs",
    "plan",
    "rail_optimised",
    "spine_leaf",
    "what_if",
]

_MODULES = {
    "heddle.controller.config.load": ("load_fabric", "load_jobs"),
    "heddle.controller.model.error": (
        *("AlreadyExistsError", "BudgetExceededError", "DeniedError", "HeddleError", "InputError", "UnavailableError"),
        *("NoAdmissiblePlanError", "NotFoundError", "PlanError", "PlannerError", "PrerequisiteError"),
    ),
    "heddle.controller.model.fabric": ("Fabric",),
    "heddle.controller.model.job": (
        "Algorithm",
        "Collective",
        "CollectiveKind",
        "FlowDemand",
        "Incast",
        "Job",
        "RankPair",
        "Steering",
    ),
    "heddle.controller.model.plan": ("Certificate", "FlowPlan"),
    "heddle.controller.planner.proof.bound": ("Bound",),
    "heddle.library.fabrics": ("clos3", "import_fabric", "rail_optimised", "spine_leaf"),
    "heddle.library.figures": ("Completion", "Hashed", "bound", "completion", "ecmp"),
    "heddle.library.plan": ("Plan", "plan"),
    "heddle.library.what_if": ("WhatIf", "what_if"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_INSIDE = {"Job": "JobRequest"}
"""Names that their module writes otherwise."""

if not TYPE_CHECKING:  # type checkers see the imports above, and no name beyond them

    def __getattr__(name: str) -> object:
        """Import a public name on its first use."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'heddle' has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(_MODULE_OF[name]), _INSIDE.get(name, name))
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """Return the public names too, which are not there before their first use."""
        return sorted({*globals(), *__all__})
