"""What a histogram says about the one before it in its series."""

from enum import StrEnum


class ResetHint(StrEnum):
    """Whether a counter started over between the histogram before and this one; or that this is no counter."""

    UNKNOWN = "unknown"
    RESET = "reset"
    NOT_RESET = "not_reset"
    GAUGE = "gauge"


def combined_hint(one: ResetHint, other: ResetHint) -> ResetHint:
    """The hint of a sum or a difference.

    >>> combined_hint(ResetHint.GAUGE, ResetHint.RESET), combined_hint(ResetHint.NOT_RESET, ResetHint.NOT_RESET)
    (<ResetHint.GAUGE: 'gauge'>, <ResetHint.NOT_RESET: 'not_reset'>)
    """
    if one is other:
        return one
    return ResetHint.GAUGE if ResetHint.GAUGE in {one, other} else ResetHint.UNKNOWN


def hints_collide(one: ResetHint, other: ResetHint) -> bool:
    """Whether one says that its counter started over and the other that its counter did not."""
    return {one, other} == {ResetHint.RESET, ResetHint.NOT_RESET}
