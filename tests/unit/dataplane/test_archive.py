"""Tables are equal after a round trip through their file; other files are refused."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.tables.compiler.archive import packed, unpacked
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.dataplane.tables.schema import Tables
from heddle.dataplane.verify.report import verify
from tests.fakes.gateway.two_tenants import LOCAL, NETWORK, tenants_tables
from tests.property.gateway.networks import gateways, networks
from tests.support.examples import examples


@settings(max_examples=examples(20), deadline=None)
@given(gateways(), networks())
def test_packed_tables_are_unpacked_equal(site, network):
    local, neighbours = site
    tables = compile_tables(local, network, neighbours=neighbours, generation=1)
    again = unpacked(packed(tables))
    for name, array in tables._asdict().items():
        other = getattr(again, name)
        assert (array.dtype, array.shape) == (other.dtype, other.shape), name
        assert np.array_equal(array, other), name


def _file(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize("data", [b"", b"PK", b"x" * 1000, _file(), _file(own=np.zeros(3))])
def test_a_file_that_contains_no_tables_is_refused(data):
    with pytest.raises(ValueError):
        unpacked(data)


TABLES = tenants_tables()
EDGES = st.sampled_from([0, -1, -2, 7, 1 << 20, 1 << 40, (1 << 63) - 1, -(1 << 63)])


@st.composite
def changes(draw):
    """Return one damage to one table: a word, the shape, the type, or the rows."""
    name = draw(st.sampled_from(Tables._fields))
    kind = draw(st.sampled_from(["word", "flat", "floats", "short", "empty"]))
    return name, kind, draw(st.integers(0, 1 << 20)), draw(EDGES)


def changed(array, kind, at, value):
    flat = array.reshape(-1).copy()
    if kind == "word" and flat.size:
        flat[at % flat.size] = value & 0xFF if flat.dtype == np.uint8 else value
    other = flat if kind == "flat" else flat.reshape(array.shape)
    if kind == "floats":
        return other.astype(np.float64)
    return other[:-1] if kind == "short" else other[:0] if kind == "empty" else other


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(changes(), min_size=1, max_size=3))
def test_damaged_tables_are_refused_or_verified_without_a_crash(damages):
    arrays = {n: a.view(np.int64) if a.dtype.names else a for n, a in TABLES._asdict().items()}
    for name, *damage in damages:
        arrays[name] = changed(arrays[name], *damage)
    file = io.BytesIO()
    np.savez(file, **arrays)
    try:
        tables = unpacked(file.getvalue())
        report = verify(tables, LOCAL, NETWORK)
    except ValueError:
        return
    assert not report.is_sound or report.vpcs == len(NETWORK.vpcs)


def test_all_compiled_tables_are_accepted():
    assert verify(unpacked(packed(TABLES)), LOCAL, NETWORK).is_sound
