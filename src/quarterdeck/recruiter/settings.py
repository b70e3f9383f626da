"""The settings of reservations in a worker."""

from collections.abc import Iterator, Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from quarterdeck.config.conflicts import Conflict, at_most
from quarterdeck.config.section import Section
from quarterdeck.config.shared import ProcessSettings
from quarterdeck.config.values import PollSeconds, Seconds, Switch, Texts, Urls
from quarterdeck.config.worker import WorkerSettings


class ReservationSettings(Section):
    """In a worker."""

    section: ClassVar[str] = "recruiter"
    former: ClassVar[Mapping[str, str]] = {
        "recruiters": "urls",
        "recruit_labels": "labels",
        "recruit_poll_s": "poll_s",
        "recruit_retry_first_s": "retry_first_s",
        "recruit_retry_max_s": "retry_max_s",
        "reserved_idle_s": "reserved_idle_s",
        "reserved_progress_s": "reserved_progress_s",
        "leave_when_abandoned": "leave_when_abandoned",
    }

    urls: Urls = ()
    """Recruiters where this worker offers itself for log searches while it is idle: coordinators, or recruiters that
    run alone. With several, each worker has its own first choice, and uses the others if that one fails. Without any it
    is never recruited."""
    labels: Texts = ()
    """The log searches that this worker is for: those that name one of these labels, and those that name none. Without
    labels it is for all."""
    poll_s: PollSeconds = 30.0
    """Seconds that a registration is held open. Too low bothers the recruiter. Too high lets something on the way close
    the silent connection, which costs a moment in the pool."""
    retry_first_s: Seconds = 0.2
    """Seconds to wait before the first try to register again with a recruiter that failed. Each wait is half as long
    again as the one before, give or take a tenth. Too low floods a recruiter that is starting; too high leaves it
    without workers after a hiccup."""
    retry_max_s: Seconds = 10.0
    """The longest wait between two tries to register, in seconds. Too low floods a network that is down; too high
    leaves a recruiter that is back without workers for as long."""
    reserved_idle_s: Seconds = 10.0
    """Seconds that a reserved worker waits for something to search. Too low loses it to a search that plans for long;
    too high keeps a worker from others after its search has died."""
    reserved_progress_s: Seconds = 60.0
    """Seconds after which a search is cut off if the worker scanned nothing for it, or nobody read what it found. Too
    low cuts off clients that are only slow; too high lets one that hangs keep its workers."""
    leave_when_abandoned: Switch = True
    """Whether the process ends if it was reserved and nothing came for `reserved_idle_s`, so that whoever started it
    starts a fresh one. Set it to false if nothing would start it again; then it registers again."""

    def conflicts(self, process: ProcessSettings) -> Iterator[Conflict]:
        assert isinstance(process, WorkerSettings)
        yield from at_most("recruiter.retry_first_s", self.retry_first_s, "recruiter.retry_max_s", self.retry_max_s)
        if self.urls and urlsplit(process.advertise_url or "").path:
            rule = "roots reach a worker by host and port: advertise_url must not have a path"
            yield Conflict(("recruiter.urls", "advertise_url"), rule)
