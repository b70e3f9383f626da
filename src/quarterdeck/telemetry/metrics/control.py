"""The control stream, from either end."""

from quarterdeck.telemetry.metrics.buckets import RECONNECT_S, ROUND_TRIP_S
from quarterdeck.telemetry.metrics.families import Audience, Families, label
from quarterdeck.telemetry.metrics.labels import DisconnectReason


class ControlMetrics:
    """What both ends know. None is of a query, so none has an exemplar."""

    def __init__(self, families: Families) -> None:
        self.disconnects = families.counter_by(
            "disconnects_total",
            "Sessions that ended, by reason. Only `goodbye` is orderly; "
            "`not_reading` means that the peer let our outbox overflow.",
            Audience.ON_CALL,
            label("reason", DisconnectReason),
        )
        """Raised once for every session that was opened, when it has ended."""

        self.reconnect = families.histogram(
            "reconnect_seconds",
            "From losing a session with a peer until the next session with it.",
            Audience.ON_CALL,
            RECONNECT_S,
        )
        """Observed when a known peer is back. A peer that stays away is in `disconnects` alone."""


class CoordinatorControlMetrics(ControlMetrics):
    """Beside that, what only a coordinator can measure: its beats are echoed, a worker's are not."""

    def __init__(self, families: Families) -> None:
        super().__init__(families)
        self.heartbeat_rtt = families.histogram(
            "heartbeat_rtt_seconds",
            "From sending a heartbeat until its echo is back. A rise means a slow network, or a busy event loop.",
            Audience.ON_CALL,
            ROUND_TRIP_S,
        )
        """Observed for every echo."""
