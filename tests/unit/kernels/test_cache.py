import pytest

from kernels.cache import digest

digest_of = digest.__wrapped__  # without the memory of a process


@pytest.fixture
def package(tmp_path):
    inner = tmp_path / "search" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "top.py").write_text("x = 1\n")
    (inner / "kernel.py").write_text("y = 1\n")
    return tmp_path


def test_a_change_in_a_nested_folder_invalidates_the_cached_kernels(package):
    before = digest_of(package)
    (package / "search" / "deep" / "kernel.py").write_text("y = 2\n")
    assert digest_of(package) != before


def test_a_file_moved_between_folders_invalidates_the_cached_kernels(package):
    before = digest_of(package)
    (package / "search" / "deep" / "kernel.py").rename(package / "search" / "kernel.py")
    assert digest_of(package) != before


def test_files_that_are_not_python_keep_the_cached_kernels(package):
    before = digest_of(package)
    (package / "search" / "README.md").write_text("what is here\n")
    assert digest_of(package) == before
