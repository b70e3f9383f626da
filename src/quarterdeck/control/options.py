"""How gRPC is set up for control streams: message sizes, and pings that find a connection whose other end is gone."""

from collections.abc import Sequence
from dataclasses import dataclass

from quarterdeck.control.codec import MAX_ENVELOPE_BYTES

PROTOCOL = "3"
"""Rises when a peer of an older version would misunderstand us. Sent with every call, and checked."""

METADATA_PROTOCOL = "quarterdeck-protocol"
METADATA_IDENTITY = "quarterdeck-identity"
METADATA_ADMITTED = "quarterdeck-admitted"
"""What a server answers with at once when it takes a call."""
METADATA_TOKEN = "authorization"  # noqa: S105 - the name of a header

_CALLS_MAX = 4
_METADATA_BYTES = 16 * 1024
_IDLE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Pings of HTTP/2, below the heartbeats of sessions: they also find a dead connection that has no session yet."""

    interval_s: float = 4.0
    """Longer than a session takes to notice silence: a peer that pauses is judged by its beats, not by these."""
    timeout_s: float = 2.0

    def options(self) -> list[tuple[str, int]]:
        interval_ms, timeout_ms = int(self.interval_s * 1000), int(self.timeout_s * 1000)
        return [
            ("grpc.keepalive_time_ms", interval_ms),
            ("grpc.keepalive_timeout_ms", timeout_ms),
            ("grpc.http2.ping_timeout_ms", timeout_ms),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_ping_interval_without_data_ms", interval_ms // 2),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", interval_ms // 2),
            ("grpc.http2.max_ping_strikes", 0),
        ]


def client_options(keepalive: Keepalive) -> Sequence[tuple[str, int]]:
    return [
        *_both(keepalive),
        # Each connection stands alone: gRPC would else share its own waiting times between them.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),  # http_proxy is for the way out, and a crew is inside
        ("grpc.initial_reconnect_backoff_ms", 100),
    ]


def server_options(keepalive: Keepalive) -> Sequence[tuple[str, int]]:
    return [
        *_both(keepalive),
        # Two processes on one port would share the connections between them, and neither would know.
        ("grpc.so_reuseport", 0),
        # What a stranger may hold: a connection carries one call, which says who it is in few words, and one without a
        # call is closed.
        ("grpc.max_concurrent_streams", _CALLS_MAX),
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
        ("grpc.max_connection_idle_ms", _IDLE_MS),
    ]


def _both(keepalive: Keepalive) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", MAX_ENVELOPE_BYTES),
        ("grpc.max_send_message_length", MAX_ENVELOPE_BYTES),
        *keepalive.options(),
    ]
