"""The bounds of histograms, in seconds, and why.

A quantile is interpolated inside one bucket, so it is off by at most that bucket's width: narrow where a promise is
judged, wide elsewhere. A limit that means something (a second, three missed beats) is a bound itself; the share of
observations below it is then exact. Every bound is a time series for each combination of labels.
"""

from typing import Final

STEP_S: Final = (
    *(0.0001, 0.0002, 0.0005),
    *(0.001, 0.002, 0.005),
    *(0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0),
)
"""A step inside a process or a network round trip: tens of microseconds when all is well, seconds when a queue stands
or a loop is blocked. What counts is the order of magnitude, so three bounds a decade."""

ROUND_TRIP_S: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0)
"""A heartbeat's way there and back: below a millisecond in a rack, tens of them between regions. At two seconds a
worker is late and at three it is lost (`LivenessPolicy`), so both are bounds and nothing comes above."""

QUERY_S: Final = (
    *(0.005, 0.01, 0.02, 0.03, 0.05, 0.075),
    *(0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 7.5),
    *(10.0, 20.0, 30.0, 60.0, 120.0, 300.0),
)
"""What a person waits for, from which p50, p95 and p99 are read. Most queries are to end below a second, so bounds are
dense there, each at most 1.7 times the one before between 20 ms and 10 s, and the second itself is one."""

TASK_S: Final = (
    *(0.001, 0.002, 0.005),
    *(0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0),
    *(10.0, 30.0, 60.0, 300.0, 1800.0),
)
"""A worker's piece of work or a part of it: milliseconds from a warm cache, minutes for a cold and large one."""

TRANSFER_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Bytes over the network: a millisecond for a small artifact of a neighbour, a minute for a large object far away."""

RECONNECT_S: Final = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0)
"""Until a lost peer is back: part of a second after a blip, the backoff's longest wait (tens of seconds) while it is
away, minutes when its machine was replaced."""

POOL_S: Final = (0.01, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""How long somebody waited to be of use: parts of a second when workers are short, up to a long poll (30 s by default,
an hour at the most) when there are too many."""
