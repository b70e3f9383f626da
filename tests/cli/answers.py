"""Answers of the Prometheus HTTP API, as short as a test wants to write them."""

from typing import Any

START_S = 1_700_000_000
"""2023-11-14 22:13:20 in UTC."""


def success(kind: str, result: Any, **more: Any) -> tuple[int, Any]:
    return 200, {"status": "success", "data": {"resultType": kind, "result": result}, **more}


def vector(*samples: tuple[dict[str, str], str], **more: Any) -> tuple[int, Any]:
    return success("vector", [{"metric": labels, "value": [START_S, value]} for labels, value in samples], **more)


def matrix(*series: tuple[dict[str, str], list[float | str]], step_s: int = 60, **more: Any) -> tuple[int, Any]:
    """Samples one after another from `START_S` on."""
    result = [
        {"metric": labels, "values": [[START_S + number * step_s, str(value)] for number, value in enumerate(values)]}
        for labels, values in series
    ]
    return success("matrix", result, **more)


def failure(status: int, kind: str, text: str) -> tuple[int, Any]:
    return status, {"status": "error", "errorType": kind, "error": text}


def histogram(count: str = "12", total: str = "3.5") -> dict[str, Any]:
    return {"count": count, "sum": total, "buckets": [[0, "0.5", "1", "12"]]}
