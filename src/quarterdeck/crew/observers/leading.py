"""Gains and losses of leadership, as log lines."""

from quarterdeck.core.leadership import effects as ef
from quarterdeck.core.leadership import events as ev
from quarterdeck.core.leadership.model import LeadershipLossReason
from quarterdeck.telemetry.logs import get_logger

_log = get_logger(__name__)


class LeadershipJournal:
    """An observer: it sees every step and changes nothing."""

    def stepped(self, event: ev.Event, effects: list[ef.Effect]) -> None:
        del event
        for effect in effects:
            match effect:
                case ef.BeginLeading(fence):
                    _log.info("this coordinator leads", fence=fence)
                case ef.EndLeading(fence, LeadershipLossReason.RELEASED):
                    _log.info(
                        "this coordinator leads no longer", fence=fence, reason=LeadershipLossReason.RELEASED.value
                    )
                case ef.EndLeading(fence, reason):
                    _log.warning("this coordinator leads no longer", fence=fence, reason=reason.value)
                case _:
                    pass
