"""The search for cycles is off while something large is made, and on again afterwards."""

import gc

import pytest

from shoal.streams.memory import without_cycle_search


def test_it_is_off_inside_and_on_again_behind_the_last_of_two_blocks_that_overlap() -> None:
    first, second = without_cycle_search(), without_cycle_search()
    assert gc.isenabled()
    with first:
        second.__enter__()
        assert not gc.isenabled()
    assert not gc.isenabled(), "the second is not over"
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_an_error_does_not_leave_it_off() -> None:
    with pytest.raises(ValueError, match="no"), without_cycle_search():
        raise ValueError("no")
    assert gc.isenabled()
