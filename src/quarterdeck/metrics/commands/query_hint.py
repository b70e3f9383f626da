"""Why an answer is empty, and what to try: the name, the time, the labels, or what the query does with what it finds.

The coordinator is asked what each selector would find. If it cannot say, nothing is guessed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quarterdeck.core.errors import QuarterdeckError
from quarterdeck.core.tenants import DEFAULT_TENANT
from quarterdeck.metrics.commands.metric_answers import SelectedAnswer, SelectorAnswer, ask_selected, has_series
from quarterdeck.terminal.client import Client
from quarterdeck.terminal.options import DEFAULT_URL
from quarterdeck.terminal.shown_times import shown_time
from quarterdeck.terminal.telling import printable

_MOST_TOLD: Final = 5


def hints(client: Client, fields: Mapping[str, str], tenant: str | None, *, is_range: bool) -> Sequence[str]:
    """Lines for a person. `fields` are what was asked."""
    place = "" if client.url == DEFAULT_URL else f" --url {client.url}"
    whose = "" if tenant is None else f" --tenant {tenant}"
    asked = {name: fields[name] for name in ("query", "time", "start", "end", "step") if name in fields}
    try:
        told = ask_selected(client, asked, tenant)
        if told is not None:
            return [printable(line) for line in _explained(client, told, tenant, place + whose, is_range=is_range)]
    except QuarterdeckError:
        pass  # the answer is there, and this is about what it may mean
    when = "in that range" if is_range else "at that time"
    return [f"no series matches {when}", f"`quarterdeck metrics{place}{whose}` lists the metrics"]


def _explained(
    client: Client, told: SelectedAnswer, tenant: str | None, flags: str, *, is_range: bool
) -> Iterator[str]:
    if not told.metrics:
        yield f"there are no metrics for the tenant {tenant or DEFAULT_TENANT}"
        yield f"bring some with `quarterdeck import FILE{flags}`, or try things with `quarterdeck sample-data{flags}`"
        return
    if not told.selectors:
        yield "the query selects no metrics, and what it computes leaves nothing"
    for one in told.selectors[:_MOST_TOLD]:
        yield _of_selector(client, one, tenant, flags, is_range=is_range)
    if len(told.selectors) > _MOST_TOLD:
        yield "it has more selectors, about which nothing is said here"


def _of_selector(client: Client, one: SelectorAnswer, tenant: str | None, flags: str, *, is_range: bool) -> str:
    if one.metric and (one.first_ms is None or one.last_ms is None):
        meant = ", ".join(f"`{name}`" for name in one.near)
        return f"there is no metric `{one.metric}`; " + (
            f"did you mean {meant}?" if meant else f"`quarterdeck metrics{flags}` lists those there are"
        )
    looked = f"from {shown_time(one.start_ms)} to {shown_time(one.end_ms)}"
    if one.first_ms is not None and one.last_ms is not None and not _overlap(one, one.first_ms, one.last_ms):
        first, last = shown_time(one.first_ms), shown_time(one.last_ms)
        span = f"{'' if one.times_are_exact else 'some time '}from {first} to {last}"
        use = f"--start {first} --end {last}" if is_range else f"--at {last}, or --start {first} --end {last}"
        return f"`{one.metric}` has samples {span}, and the query looks {looked}; use {use}"
    if not one.found or has_series(client, one, tenant) is False:
        if one.selector == one.metric:
            return f"`{one.metric}` has no samples {looked}, but before and after"
        return f"no series with samples {looked} matches `{one.selector}`: look at the labels"
    return (
        f"`{one.selector}` has samples {looked}: what the query does with them leaves nothing, such as a comparison, "
        "labels that differ on both sides of an operator, or a rate over fewer than two samples"
    )


def _overlap(one: SelectorAnswer, first_ms: int, last_ms: int) -> bool:
    return first_ms <= one.end_ms and one.start_ms <= last_ms
