import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.planner.render import NO_TEXT, Template, Texts, rendered

WORDS = ("", "a", "some text", "x" * 40)
NUMBERS = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-11, 11))
ROW = st.tuples(NUMBERS, st.lists(st.integers(NO_TEXT, len(WORDS) - 1), min_size=3, max_size=3), NUMBERS)


@given(rows=st.lists(ROW, max_size=4))
def test_rows_are_rendered_as_python_would(rows):
    template = Template(Texts.of(["<", ": ", " = ", ">"]), np.array([0, 3, 0]))
    columns = np.array([[first, *texts, last] for first, texts, last in rows], dtype=np.int64).reshape(-1, 5)
    expected = [
        f"<{first}: {', '.join(WORDS[text] for text in texts if text >= 0)} = {last}>" for first, texts, last in rows
    ]
    assert rendered(template, Texts.of(WORDS), columns) == ", ".join(expected)
