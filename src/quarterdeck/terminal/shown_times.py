"""Times of samples in a form that can be pasted where a command takes a TIME."""

from quarterdeck.core.time_texts import MAX_CALENDAR_US, MIN_CALENDAR_US, show_time_us


def shown_time(time_ms: int) -> str:
    """RFC 3339 in UTC; seconds since 1970 where there is no such year.

    >>> shown_time(1_700_000_000_000), shown_time(1_700_000_000_250), shown_time(10**15)
    ('2023-11-14T22:13:20Z', '2023-11-14T22:13:20.250Z', '1000000000000')
    """
    if not MIN_CALENDAR_US <= time_ms * 1_000 <= MAX_CALENDAR_US:
        return f"{time_ms / 1000:.3f}".rstrip("0").rstrip(".")
    return show_time_us(time_ms * 1_000, 3 if time_ms % 1000 else 0)


def shown_span(first_ms: int | None, last_ms: int | None) -> str:
    """From the first sample to the last; empty where there is none.

    >>> shown_span(0, 60_000), shown_span(0, 0)
    ('from 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z', 'at 1970-01-01T00:00:00Z')
    """
    if first_ms is None or last_ms is None:
        return ""
    first, last = shown_time(first_ms), shown_time(last_ms)
    return f"at {first}" if first == last else f"from {first} to {last}"
