import os

import pytest
import yaml

from heddle.controller.config import load_fabric, parse_fabric, parse_jobs
from heddle.controller.config.service import load_service
from heddle.controller.config.text.document import parse_document, read_document
from heddle.controller.model.error import InputError
from tests.unit.config.lab import GENERATE, fabric, refused


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "~"])
def test_an_empty_file_is_refused(text):
    assert refused(text) == ["fabric.yaml: the file is empty; docs/files.md shows what belongs there"]


@pytest.mark.parametrize(("text", "what"), [("[1]", "a list"), ("3", "3"), ("lab", "'lab'"), ("2024-01-01", "a date")])
def test_a_file_that_is_no_mapping_is_refused(text, what):
    assert refused(text) == [f"fabric.yaml: must be a mapping of keys to values, is {what}"]


def test_a_syntax_error_has_line_and_column():
    assert refused("name: lab\nlinks: [\n")[0].startswith("fabric.yaml: line 3, column 1: not YAML: ")


def test_a_duplicate_key_is_refused_with_its_path():
    text = GENERATE + 'links:\n- {a: "leaf1:9", b: "spine1:9", gbps: 1}\n- {a: "leaf1:8", gbps: 1, a: "leaf1:7"}\n'
    assert refused(text) == ["fabric.yaml: links[1].a: the same key twice; keep one of them (line 4, column 27)"]


@pytest.mark.parametrize("text", ["1: 2", "true: 2", "~: 2", "{[1]: 2}", "{{a: b}: 2}", "a: &x b\n*x : 3"])
def test_a_key_that_is_no_text_is_refused(text):
    (line,) = refused(text)
    assert "key" in line


def test_an_object_tag_is_refused():
    (line,) = refused("name: !!python/object/apply:os.getcwd []")
    assert line.startswith("fabric.yaml: name: tag ")


def test_aliases_that_multiply_are_refused_before_they_are_expanded():
    steps = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12))
    (line,) = refused(f"a0: &a0 [1, 1, 1]\n{steps}\n")
    assert "aliases add more than 2,000,000 values" in line


def test_an_alias_of_itself_is_refused():
    assert refused("name: &a [*a]")[0].startswith("fabric.yaml: name[0]: alias '*a' has no anchor before it")


def test_an_alias_repeats_what_it_names():
    assert parse_document("a: &x [1, {b: c}]\nd: *x\n", "f").value == {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}


def test_a_merge_key_supplies_missing_keys():
    text = "base: &b {kind: clos3, spines: 4}\nother: {spines: 8, <<: *b}\n"
    assert parse_document(text, "f").value["other"] == {"kind": "clos3", "spines": 8}


def test_deep_nesting_is_refused_at_once():
    assert "nested more than 64 deep" in refused("[" * 900)[0]
    assert "nest" in refused("[" * 100_000)[0]  # newer releases of libyaml stop at 1,000 levels themselves


def test_a_second_document_is_refused():
    assert "a second document begins here" in refused(GENERATE + "---\n" + GENERATE)[0]


def test_plain_values_are_those_of_pyyaml():
    numbers = "1, 131072, 98765432109876543210, ١, 0x1F, 0o7, 0, -3, 1_000, 1.5, 0.5, 1e3, 1.0e+3, .inf, -1., 1.2.3.4"
    words = "yes, Off, ~, null, a, '1', \"2\", '', +, -a, 2024-01-01, 2024-13-41x"
    text = f"a: [{numbers}, {words}]"
    assert parse_document(text, "f").value == yaml.safe_load(text)


def test_numbers_that_yaml_reads_with_base_8_or_60_are_texts():
    written = ["010", "-010", "0_7", "00", "12:30", "1:40.5", "12:00:00:00:00:01", "1_0:59", "+1:2"]
    assert parse_document(f"a: [{', '.join(written)}]", "f").value == {"a": written}


@pytest.mark.parametrize(
    ("spines", "hint"),
    [
        ("010", "is '010'; leave out the zeros before it, by which YAML means a number of base 8"),
        ("1:30", "is '1:30'; write one number: with colons YAML means one of base 60"),
        ("4x", "is '4x'; write the number without a unit"),
        ("1e3", "is '1e3'; write it out, or as 1.0e+9 where fractions are allowed"),
        ("'4'", "is '4'; leave out the quotes"),
        ("four", "is 'four'"),
    ],
)
def test_a_text_where_a_number_belongs_is_refused_with_the_remedy(spines, hint):
    (line,) = refused(f"generate: {{kind: spine_leaf, spines: {spines}, leaves: 1, hosts_per_leaf: 1}}")
    assert line.endswith(f"must be a whole number, {hint}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("generate:\n\tkind: clos3\n", "line 2, column 1: a tab before the first word; YAML indents by spaces"),
        ("name: @lab\n", "line 1, column 7: a value cannot begin with @; put it in quotes"),
        ("name: `lab`\n", "line 1, column 7: a value cannot begin with `; put it in quotes"),
        ("name:\u00a0lab\n", "is 'name:\\xa0lab'; it has no-break spaces, write common ones"),
        ("switches:\n  yes: 1\n", "switches: the key yes is not a text; put it in quotes (line 2, column 3)"),
    ],
)
def test_habits_that_are_no_yaml_are_named(text, why):
    assert refused(text)[0].endswith(why)


def test_text_of_utf_16_is_named(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(GENERATE.encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16 text, as > of PowerShell writes it; save the file as UTF-8"):
        read_document(path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("version: 1\njobs: []\n", "a jobs file, where a fabric file belongs"),
        ("topology: {nodes: {}}\n", "a topology of another program; `heddle import` makes a fabric file of it"),
        ("edges: []\n", "a topology of another program; `heddle import` makes a fabric file of it"),
    ],
)
def test_another_file_where_a_fabric_file_belongs_is_named(text, what):
    assert refused(text) == [f"fabric.yaml: {what}"]
    assert refused(GENERATE + text.replace("version: 1\n", "")) != [f"fabric.yaml: {what}"]


def test_a_fabric_file_where_a_jobs_file_belongs_is_named():
    with pytest.raises(InputError) as caught:
        parse_jobs(GENERATE, "jobs.yaml", fabric())
    assert caught.value.problems == ("jobs.yaml: a fabric file, where a jobs file belongs",)


def test_special_scalars_of_pyyaml_are_text():
    assert parse_document("a: [=, <<, 2024-13-41]", "f").value == {"a": ["=", "<<", "2024-13-41"]}


def test_a_number_of_a_hundred_thousand_digits_is_read_as_text():
    (line,) = refused(f"generate: {{kind: spine_leaf, spines: {'9' * 100_000}, leaves: 1, hosts_per_leaf: 1}}")
    assert "generate.spines: must be a whole number" in line
    assert len(line) < 300


def test_a_file_that_is_missing_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load_fabric(tmp_path / "none.yaml")


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_fabric(tmp_path)


def test_an_impossible_file_name_is_refused():
    with pytest.raises(InputError, match="cannot be read"):
        load_fabric("a\0b")


def test_a_file_that_is_not_utf_8_is_refused_with_the_line(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"version: 1\nname: caf\xe9\n")
    with pytest.raises(InputError, match="line 2: not UTF-8 text; save the file as UTF-8"):
        load_fabric(path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GENERATE.encode())
    assert load_fabric(path) == fabric()


@pytest.mark.parametrize(("read", "limit"), [(load_fabric, "128 MiB"), (load_service, "16 MiB")])
def test_a_file_past_the_size_limit_is_refused(tmp_path, read, limit):
    path = tmp_path / "big.yaml"
    path.touch()
    os.truncate(path, (int(limit.split()[0]) << 20) + 1)
    with pytest.raises(InputError, match=f"cannot be read: larger than {limit}, the most that is read"):
        read(path)


def test_a_fifo_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fabric.yaml")
    with pytest.raises(InputError, match="cannot be read: no regular file"):
        load_fabric(tmp_path / "fabric.yaml")


def test_problems_name_the_file_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my fabric.yaml").write_text("nmae: x\n" + GENERATE)
    with pytest.raises(InputError) as caught:
        load_fabric("my fabric.yaml")
    assert caught.value.problems == ("my fabric.yaml: nmae: unknown key, did you mean name?",)


def test_a_line_of_a_problem_stays_one_line_whatever_the_file_holds():
    assert refused(GENERATE + '"a\\nb\\e[1m": 1\n')[0].startswith(r"fabric.yaml: 'a\nb\x1b[1m': unknown key; ")


def test_at_most_twenty_problems_are_listed_and_the_rest_counted():
    links = "".join(f"- {{a: 'leaf1:9', b: 'spine1:{i}', gbps: 0}}\n" for i in range(1, 51))
    lines = refused(GENERATE + "links:\n" + links)
    assert len(lines) == 21
    assert lines[-1] == "fabric.yaml: (+30 more)"


def test_the_pure_python_loader_reads_the_same(monkeypatch):
    monkeypatch.setattr("heddle.controller.config.text.document._LOADER", yaml.SafeLoader)
    assert parse_fabric(GENERATE, "fabric.yaml") == fabric()
