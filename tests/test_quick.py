"""A quick run leaves out what starts a process, a server or a browser, and nothing else."""

import subprocess
from pathlib import Path

import pytest

from support.quick import LEFT_OUT, is_quick, starts_more


def run_program():
    return subprocess.run(["true"])


def uses_a_helper():
    return [run_program() for _ in range(1)]


class Runner:
    def start(self):
        return uses_a_helper()


@pytest.fixture(params=["file", "postgresql"])
def location(request):
    return request.param


@pytest.mark.parametrize("part", [run_program, uses_a_helper, Runner])
def test_what_starts_a_process_is_found_through_helpers_and_classes(part):
    assert starts_more(part)


def test_what_starts_nothing_is_quick(request):
    assert not starts_more(test_what_starts_nothing_is_quick)
    assert is_quick(request.node)


def test_the_postgresql_half_of_a_test_is_left_out(request, location):
    assert is_quick(request.node) == (location == "file")


def test_the_folders_that_are_left_out_exist():
    assert {path.name for path in Path(__file__).parent.iterdir()} >= LEFT_OUT
