import struct
import subprocess
import sys
import textwrap
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.planner.exact.colouring import colour_edges
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.jit import _Kernel, kernel
from heddle.controller.planner.proof.deadlock import deadlock_free
from heddle.controller.planner.proof.ecmp import _CRC_TABLE, crc32_of_tuple
from heddle.controller.planner.session.paths import fullest_link
from heddle.controller.planner.session.table import DEAD
from tests.support.fabrics.planner_cases import fabric_of, job_of, plan_of


@given(
    edges=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40),
    colours=st.sampled_from([1, 2, 3, 5, 8, 70]),
)
def test_no_colour_occurs_more_often_at_a_vertex_than_the_bound(edges, colours):
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    found = colour_edges(ends[:, 0].copy(), ends[:, 1].copy(), 5, colours)
    for side in (0, 1):
        for vertex in range(5):
            meets = np.bincount(found[ends[:, side] == vertex], minlength=1)
            degree = int((ends[:, side] == vertex).sum())
            assert meets.max() <= -(-degree // colours)
    assert ((found >= 0) & (found < colours)).all()


@given(
    links=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([1e11, 4e11]), st.booleans()), min_size=2, max_size=40
    ).filter(lambda links: len(links) % 2 == 0)
)
def test_the_fullest_link_is_the_first_of_the_live_ones_that_have_the_largest_utilisation(links):
    """Loads are thirds of 100 Gbit/s, so equal utilisations are common; dead links may have load that is no flow's."""
    load = np.array([float(10**11 * thirds // 3) for thirds, _, _ in links])
    capacity = np.array([bps for _, bps, _ in links])
    dead = np.array([is_dead for _, _, is_dead in links])
    found = fullest_link(load, np.where(dead, DEAD, 1 / capacity), np.where(dead, np.inf, capacity))
    used = [0.0 if is_dead else float(a / b) for a, b, is_dead in zip(load, capacity, dead, strict=True)]
    assert found == (max(used), used.index(max(used)) if max(used) else 0)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 65535))
def test_the_hash_is_crc32_over_the_five_tuple(source, target, port):
    expected = zlib.crc32(struct.pack(">IIBHH", source, target, 17, port, 4791))
    assert crc32_of_tuple(_CRC_TABLE, source, target, port) == expected


def test_a_cyclic_buffer_dependency_is_found():
    fabric = fabric_of()
    topology = topology_of(fabric)
    up, down = [[topology.link_index[f] for f in links] for links in _links(fabric)]
    good = np.array([[up[0], down[2], -1, -1]])
    # leaf1 up spine1 down leaf2 up spine2 down leaf1 up spine1 ...: each buffer waits for the next.
    round_trip = np.array([[up[0], down[2], up[3], down[1]], [up[3], down[1], up[0], down[2]]])
    assert deadlock_free(topology, (good,))
    assert not deadlock_free(topology, (good, round_trip))


def _links(fabric):
    return [cable.up_link for cable in fabric.cables], [cable.down_link for cable in fabric.cables]


def test_a_kernel_that_kernels_call_has_one_compiled_form_for_literals_and_variables():
    @kernel
    def doubled(x: int) -> int:
        return 2 * x

    @kernel
    def sum_of_doubles(x: int) -> int:
        return doubled(x) + doubled(3)

    assert sum_of_doubles(4) == 14
    assert len(vars(doubled)["part"].signatures) == 1
    assert doubled(5) == 10


def test_no_kernel_returns_a_named_tuple_to_python():
    fabric = fabric_of(failed=["leaf1:1>spine1:1"])
    plan_of(fabric, job_of(fabric, {"kind": "ALL_TO_ALL", "bytes": 1}))
    modules = [module for name, module in sys.modules.items() if name.startswith("heddle.controller.planner.")]
    kernels = {
        each.__qualname__: each for module in modules for each in vars(module).values() if isinstance(each, _Kernel)
    }
    returned = {
        name: [form.signature.return_type for form in each.overloads.values()] for name, each in kernels.items()
    }
    assert returned["_bound_of_partial_cuts"]
    # To make one, numba runs Python code; if a signal handler raises there (Ctrl-C), the process crashes.
    assert [name for name, types in returned.items() if any(hasattr(each, "instance_class") for each in types)] == []


def test_to_load_the_kernels_imports_nothing_that_takes_long_and_makes_nothing_for_compiling():
    code = "import gc, sys; from heddle.controller.planner.ground.jit import _Kernel"
    code += "; from heddle.controller.planner.warm import warm; warm()"
    code += "; kernels = [each for each in gc.get_objects() if isinstance(each, _Kernel)]"
    code += "; print(len(kernels) > 100, sum('part' in vars(each) for each in kernels))"
    code += "; print(sorted({'numba.np.arraymath', 'coverage'} & sys.modules.keys()))"
    command = (sys.executable, "-c", code)
    # A process that has to compile imports all of numba; the next one loads what it has compiled.
    said = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() for _ in range(2)]
    assert said[-1] == ["True 0", "[]"]


def test_a_damaged_or_missing_cache_only_costs_time(tmp_path):
    (tmp_path / "doubled.py").write_text(
        textwrap.dedent("""
            from heddle.controller.planner.ground.jit import kernel

            @kernel
            def doubled(x: int) -> int:
                return 2 * x

            print(doubled(21))
        """)
    )

    def run(cache):
        environment = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [sys.executable, "doubled.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout, done.stderr

    cache = tmp_path / "cache"
    assert run(cache) == ("42\n", "")
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(b"torn")
    assert run(cache) == ("42\n", "")
    (tmp_path / "a-file").write_text("not a folder")
    assert run(tmp_path / "a-file") == ("42\n", "")
