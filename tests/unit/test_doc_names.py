"""What a document quotes and the tree lacks is found, and what it has is not."""

import pytest

from tests.support.doc_names import Tree

FILES = {
    "controller/brain/decide.py": "_HANDLERS = {}\n\n\ndef decide(state): ...\n",
    "controller/model/job.py": "class Base:\n    job_id: str\n\n\nclass JobPlan(Base):\n    def flows(self): ...\n",
    "controller/model/wire.proto": "message Collective {\n  enum Kind {\n    RING = 0;\n  }\n}\n",
    "tests/unit/test_decide.py": "",
}


@pytest.fixture
def unknown(tmp_path):
    """Return a function that returns what is unknown of a text, in docs or beside the brain."""

    def of(text, page="docs/page.md"):
        for path, content in {**FILES, page: text}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content)
        tree = Tree(tmp_path)
        assert page in tree.documents()
        return [*tree.unknown(page), *tree.misplaced(page)]

    return of


@pytest.mark.parametrize(
    "name",
    [
        "controller/brain/decide.py", "heddle/controller/brain/decide.py", "controller/brain/", "decide.py",
        "test_decide", "brain.decide", "heddle.controller.brain.decide", "decide.decide(state)",
        "decide(state) -> state", "_HANDLERS", "model.JobPlan", "JobPlan.flows", "JobPlan.job_id", "Collective.Kind",
        "switch/SWITCH/ports", "/metrics", "job_id", "heddle plan FABRIC", "a single word",
    ],
)  # fmt: skip
def test_what_exists_is_known(unknown, name):
    assert unknown(f"Text `{name}` text.") == []


@pytest.mark.parametrize(
    ("quoted", "name"),
    [
        ("controller/brain/decided.py", None), ("brain/decide.py", None), ("decided.py", None),
        ("decide.decided", None), ("heddle.controller.brain.decide.install", None), ("JobPlan.links", None),
        ("_handlers", None), ("decided(state)", "decided"), ("Collective.Sort", None), ("JobFlows", None),
        ("flow_ids", None), ("loop.states", None),
    ],
)  # fmt: skip
def test_what_is_gone_is_found(unknown, quoted, name):
    assert unknown(f"Text `{quoted}` text.") == [name or quoted]


def test_a_readme_names_files_from_its_folder_and_those_above(unknown):
    page = "controller/brain/README.md"
    assert unknown("`decide.py`, `model/job.py`, `controller/model`, `other/job.py`", page) == ["other/job.py"]


def test_a_name_is_looked_up_in_the_file_that_is_named(unknown):
    assert unknown("`decide` of `controller/brain/decide.py`, and `job.py` (`decide`)") == ["decide in job.py"]


def test_fenced_text_is_none(unknown):
    assert unknown("```\n`_gone`\n```\n") == []
