"""`scripts/release`, in a repository of its own with the files that have a version."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n- Old line.\n\n## 0.0.9\n\nEarlier.\n"


def git(folder: Path, *arguments: str) -> str:
    name = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.example",
        "-c",
        "tag.gpgSign=false",
        "-c",
        "commit.gpgSign=false",
    )
    return subprocess.run(
        ["git", *name, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{variable}_NAME", "a")
        monkeypatch.setenv(f"{variable}_EMAIL", "a@b.example")
    for name in ("scripts/release", "CITATION.cff", "packaging/changes/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    (tmp_path / "CITATION.cff").write_text("title: Heddle\nversion: 0.1.0\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "--quiet")
    return committed(tmp_path)


def committed(repository: Path) -> Path:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "x")
    return repository


def contents(repository: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in repository.iterdir() if path.is_file()}


def release(repository: Path, argument: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "scripts/release", argument], cwd=repository, capture_output=True, text=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a_release_has_one_version_everywhere_a_tag_and_the_changes_below_its_heading(repository: Path) -> None:
    (repository / "packaging/changes/pings.added.md").write_text("Pings.\n")
    (repository / "packaging/changes/hang.fixed.md").write_text("A hang.\n")
    status, said = release(committed(repository), "0.2.0")
    assert (status, said) == (0, "version 0.2.0, tag v0.2.0; push with: git push --follow-tags")
    assert 'version = "0.2.0"' in (repository / "pyproject.toml").read_text()
    assert "version: 0.2.0" in (repository / "CITATION.cff").read_text()
    head, _, rest = (repository / "CHANGELOG.md").read_text().partition("\n## 0.2.0 (20")
    assert head == "# Changelog\n\n## Unreleased\n"
    assert rest.partition("\n")[2] == (
        "\n### Added\n- Pings.\n- Old line.\n\n### Fixed\n- A hang.\n\n## 0.0.9\n\nEarlier.\n"
    )
    assert [path.name for path in (repository / "packaging/changes").iterdir()] == ["README.md"]
    assert (git(repository, "status", "--porcelain"), git(repository, "tag", "--points-at", "HEAD")) == ("", "v0.2.0")
    assert release(repository, "--check") == (0, "version 0.2.0, tag v0.2.0")


def test_a_tag_that_is_not_that_of_the_version_is_one_line(repository: Path) -> None:
    assert release(repository, "--check") == (0, "version 0.1.0, no tag here")
    git(repository, "tag", "v0.3.0")
    assert release(repository, "--check") == (
        2, "release: tag v0.3.0: pyproject.toml has version 0.1.0; move the tag or the version",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "text", "argument", "line"),
    [
        ("x", None, "0.1.0", "0.1.0: must be above the current version, 0.1.0"),
        ("x", None, "1.0", "1.0: must be three numbers such as 0.2.0 (semantic versioning)"),
        ("x", "uncommitted", "0.2.0", "files differ from the last commit: commit or remove them first"),
        (
            "CITATION.cff",
            "version: 0.0.1\n",
            "0.2.0",
            "the files disagree: pyproject.toml has 0.1.0, CITATION.cff has 0.0.1",
        ),
    ],
)
def test_what_cannot_be_released_is_one_line_and_changes_no_file(
    repository: Path, path: str, text: str | None, argument: str, line: str
) -> None:
    if text is not None:
        (repository / path).write_text(text)
    before = contents(repository)
    assert release(repository, argument) == (2, f"release: {line}")
    assert contents(repository) == before
    assert git(repository, "tag") == ""


def test_a_change_of_no_kind_and_an_empty_changelog_are_refused(repository: Path) -> None:
    (repository / "packaging/changes/x.better.md").write_text("x")
    status, said = release(committed(repository), "0.2.0")
    assert (status, said.partition("must be")[0]) == (2, "release: packaging/changes/x.better.md: ")
    (repository / "packaging/changes/x.better.md").unlink()
    (repository / "CHANGELOG.md").write_text("## Unreleased\n")
    assert release(committed(repository), "0.2.0") == (2, "release: CHANGELOG.md: nothing is unreleased")


def test_the_files_of_this_tree_agree_on_the_version() -> None:
    status, said = release(ROOT, "--check")
    assert status == 0, said
