"""Killed before or in the middle of any single change of a file: old state or new state, never neither."""

import pytest


def check(left):
    assert left["old"], "no kill came before the deed was done"
    assert left["new"], "no kill came after the deed was done"
    assert left["old"] + left["new"] == left["killed"]


@pytest.mark.requirement("LOG-3", "LOG-5")
@pytest.mark.parametrize("deed", ["append", "compact", "erase"])
def test_killed_at_some_steps_of_a_deed_the_store_is_as_before_or_as_after(actors, tmp_path, seed, deed):
    check(actors.run("dying", folder=tmp_path, deed=deed, size=40, sample=40, seed=seed))


@pytest.mark.slow
@pytest.mark.requirement("LOG-3", "LOG-5")
@pytest.mark.parametrize("deed", ["append", "compact", "erase"])
def test_killed_at_every_step_of_a_deed_the_store_is_as_before_or_as_after(actors, tmp_path, seed, deed):
    check(actors.run("dying", folder=tmp_path, deed=deed, size=300, sample=0, seed=seed))


@pytest.mark.requirement("LOG-1")
def test_a_store_whose_creation_was_killed_at_any_step_can_be_created_again(actors, tmp_path, seed):
    assert actors.run("dying", folder=tmp_path, deed="create", size=0, sample=60, seed=seed)["killed"] > 10
