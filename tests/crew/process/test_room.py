"""What clients may ask of a process: what its settings say, and what its system allows."""

import pytest

from quarterdeck.config import CoordinatorSettings
from quarterdeck.crew.process import room
from quarterdeck.crew.process.room import http_limits


def test_the_settings_become_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_files_max", lambda: 1_000_000)
    settings = CoordinatorSettings(
        http_connections_max=1001,
        http_connections_per_address_max=12,
        http_bodies_max_bytes=13,
        http_body_stall_s=1.5,
        http_body_timeout_s=2.5,
        http_unread_timeout_s=3.5,
    )
    limits = http_limits(settings)
    assert (limits.connections, limits.connections_of_address, limits.bodies_bytes) == (1001, 12, 13)
    assert (limits.body_stall_s, limits.body_timeout_s, limits.unread_timeout_s) == (1.5, 2.5, 3.5)


def test_connections_leave_files_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_files_max", lambda: 1024)
    assert http_limits(CoordinatorSettings()).connections == 768


def test_a_process_may_open_some_files() -> None:
    assert http_limits(CoordinatorSettings()).connections > 10


def test_one_address_gets_no_more_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_files_max", lambda: 1_000_000)
    assert http_limits(CoordinatorSettings(http_connections_max=10)).connections_of_address == 10
