"""What a request does to the row, inside the transaction of a store. Pure, so that every store does the same."""

from dataclasses import replace
from typing import assert_never

from quarterdeck.core.ids import Fence
from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership.model import LeaderRow, LeaseConfig


def row_after(request: ef.Request, config: LeaseConfig, row: LeaderRow, highest: Fence) -> LeaderRow:
    """The row as the request leaves it; `row` itself where it has nothing to change. `highest` is the highest fence
    that the store has seen, under which others may have written that never held this row."""
    match request:
        case ef.ReadRow():
            return row
        case ef.TakeRow(seen=seen, above=above):
            if row != seen:
                return row
            fence = Fence(max(row.fence, highest, above) + 1)
            return LeaderRow(config.candidate, config.name, fence, row.beat + 1, config.lease_s)
        case ef.RaiseBeat(fence=fence):
            if row.holder != config.candidate or row.fence != fence:
                return row
            return replace(row, beat=row.beat + 1)
        case ef.ReleaseRow():
            if row.holder != config.candidate:
                return row
            return replace(row, holder=None, name="", beat=row.beat + 1)
        case _:
            assert_never(request)
