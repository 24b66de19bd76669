"""Tables survive their file; what is no such file is refused."""

import io

import numpy as np
import pytest
from hypothesis import given, settings

from dataplane.gateway.archive import packed, unpacked
from dataplane.gateway.compile import compile_tables
from tests.property.networks import gateways, networks


@settings(max_examples=20, deadline=None)
@given(gateways(), networks())
def test_what_is_packed_is_read_again(site, network):
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
def test_what_is_no_file_of_tables_is_refused(data):
    with pytest.raises(ValueError):
        unpacked(data)
