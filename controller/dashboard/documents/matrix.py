"""The leaf by spine matrix."""

import numpy as np

from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.shapes.fabric import Matrix
from heddle.controller.views.link_states import planned_utilisation
from heddle.controller.views.matrix import Floats, leaf_matrix
from heddle.controller.views.measured import LinkRows, utilisation_of_links

MEASURED, PLANNED = "measured", "planned"


def matrix_document(moment: Moment, of: str | None = None) -> Matrix:
    """Return the matrix of what is measured or planned; by default measured, where there is telemetry."""
    chosen = of or (PLANNED if moment.tick is None else MEASURED)
    found = leaf_matrix(moment.state.fabric, planned_utilisation(moment.state) if chosen == PLANNED else _used(moment))
    return {
        "of": chosen,
        "leaves": list(found.leaves),
        "spines": list(found.uppers),
        "up": _rounded(found.up),
        "down": _rounded(found.down),
        "imbalance_index": round(found.imbalance_index, 3),
    }


def _used(moment: Moment) -> Floats:
    fabric = moment.state.fabric
    if moment.tick is None:
        return np.full(len(fabric.directed_links), np.nan)
    snapshot = moment.tick.snapshot
    return utilisation_of_links(LinkRows.of(fabric, snapshot.names), snapshot)


def _rounded(values: Floats) -> list[list[float | None]]:
    return [[None if value != value else value for value in row] for row in np.round(values, 3).tolist()]
