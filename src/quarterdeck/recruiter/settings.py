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
    """Recruiters where this worker offers itself for log searches while it is idle: coordinators, or a recruiter by
    itself. With several, each worker has its own first choice, and the others for when that fails. Without any it is
    never recruited."""
    labels: Texts = ()
    """What log searches this worker is for: those that name one of these, or none. Without any it is for all."""
    poll_s: PollSeconds = 30.0
    """Seconds that a registration is held open. Too low bothers the recruiter; too high lets something between them
    that closes silent connections do so, which costs a moment in the pool."""
    retry_first_s: Seconds = 0.2
    """Seconds to wait before the first try to register again with a recruiter that failed; each wait is half as long
    again as the one before, give or take a tenth. Too low floods a recruiter that is coming up; too high leaves it
    without workers after a hiccup."""
    retry_max_s: Seconds = 10.0
    """The longest wait between two tries to register, in seconds. Too low floods a network that is down; too high
    leaves a recruiter that is back without workers for as long."""
    reserved_idle_s: Seconds = 10.0
    """Seconds that a reserved worker waits for something to search. Too low loses it to a search that plans for long;
    too high keeps a worker whose search has died from others."""
    reserved_progress_s: Seconds = 60.0
    """Seconds after which a search is cut off of which nothing was scanned, nor taken by whoever asked. Too low cuts
    off clients that are only slow; too high lets one that hangs keep its workers."""
    leave_when_abandoned: Switch = True
    """Whether the process ends when it was reserved and nothing came for `reserved_idle_s`: whoever started it starts a
    fresh one. False, for where nobody would, makes it register again."""

    def conflicts(self, process: ProcessSettings) -> Iterator[Conflict]:
        assert isinstance(process, WorkerSettings)
        yield from at_most("recruiter.retry_first_s", self.retry_first_s, "recruiter.retry_max_s", self.retry_max_s)
        if self.urls and urlsplit(process.advertise_url or "").path:
            rule = "roots reach a worker by host and port: advertise_url must not have a path"
            yield Conflict(("recruiter.urls", "advertise_url"), rule)
