"""What a request may do to the row, whatever the row has become in the meantime."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.core.ids import CandidateId, Fence
from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership.model import NOBODY, LeaderRow, LeaseConfig
from quarterdeck.core.leadership.row_rules import row_after

ME = LeaseConfig(CandidateId("me"), "my name", lease_s=7.0)
MINE = LeaderRow(ME.candidate, ME.name, Fence(3), beat=8, lease_s=7.0)
ANOTHERS = replace(MINE, holder=CandidateId("another"), name="another's")

rows = st.builds(
    LeaderRow,
    holder=st.sampled_from([None, ME.candidate, CandidateId("another")]),
    name=st.just(""),
    fence=st.integers(0, 4).map(Fence),
    beat=st.integers(0, 4),
    lease_s=st.just(7.0),
)
requests = st.one_of(
    st.just(ef.ReadRow(1)),
    st.builds(ef.TakeRow, number=st.just(1), seen=rows, above=st.integers(0, 6).map(Fence)),
    st.builds(ef.RaiseBeat, number=st.just(1), fence=st.integers(0, 4).map(Fence)),
    st.just(ef.ReleaseRow(1)),
)


def test_a_row_that_nobody_has_is_taken_under_the_first_fence() -> None:
    taken = row_after(ef.TakeRow(1, NOBODY), ME, NOBODY, Fence(0))
    assert taken == LeaderRow(ME.candidate, "my name", Fence(1), beat=1, lease_s=7.0)


def test_a_takeover_is_above_every_fence_that_the_store_has_seen_elsewhere() -> None:
    assert row_after(ef.TakeRow(1, ANOTHERS), ME, ANOTHERS, Fence(20)).fence == 21
    assert row_after(ef.TakeRow(1, ANOTHERS, Fence(30)), ME, ANOTHERS, Fence(20)).fence == 31


def test_a_row_that_has_changed_since_it_was_seen_is_not_taken() -> None:
    now = replace(ANOTHERS, beat=9)
    assert row_after(ef.TakeRow(1, ANOTHERS), ME, now, Fence(3)) is now


def test_a_beat_changes_the_beat_alone() -> None:
    assert row_after(ef.RaiseBeat(1, Fence(3)), ME, MINE, Fence(3)) == replace(MINE, beat=9)


@pytest.mark.parametrize("row", [ANOTHERS, replace(MINE, fence=Fence(4)), replace(MINE, holder=None)])
def test_a_late_beat_changes_nothing(row: LeaderRow) -> None:
    assert row_after(ef.RaiseBeat(1, Fence(3)), ME, row, Fence(3)) is row


def test_a_release_frees_the_row_and_keeps_its_fence() -> None:
    freed = row_after(ef.ReleaseRow(1), ME, MINE, Fence(3))
    assert (freed.holder, freed.name, freed.fence, freed.beat) == (None, "", 3, 9)


def test_nobody_frees_what_is_anothers() -> None:
    assert row_after(ef.ReleaseRow(1), ME, ANOTHERS, Fence(3)) is ANOTHERS


@given(requests, rows, st.integers(0, 6).map(Fence))
def test_a_row_that_changes_is_new_and_never_lowers_a_fence(
    request: ef.Request, row: LeaderRow, highest: Fence
) -> None:
    after = row_after(request, ME, row, highest)
    assert after is row or (after.beat == row.beat + 1 and after.fence >= row.fence)
    if after.holder == ME.candidate != row.holder:
        assert after.fence > max(row.fence, highest)
    if row.holder not in (None, ME.candidate) and not isinstance(request, ef.TakeRow):
        assert after is row
