"""A test over many cases runs them all, and names each that fails."""

import pytest

from support.each import each


@each("number", [1, 2, 3])
def check_odd(number, wanted):
    assert number % 2 == wanted


def test_every_faulty_case_is_named():
    with pytest.raises(AssertionError, match=r"2 of 3 fail\.\n1: AssertionError: .*\n3: AssertionError: "):
        check_odd(wanted=0)


def test_a_test_without_cases_fails():
    with pytest.raises(AssertionError, match="no number to test"):
        each("number", [])(lambda number: None)()


@each("number", [1, 3])
@pytest.mark.parametrize("wanted", [1])
def test_fixtures_and_other_parameters_are_passed_on(number, wanted):
    assert number % 2 == wanted
