"""Why a fetch failed: one name for each reason, counted under it, and what the reason means to the one who waits."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from quarterdeck.core.errors import ErrorCode


class FetchFailure(StrEnum):
    """The reasons, as metrics name them."""

    REFUSED_URL = "refused_url"
    UNREACHABLE = "unreachable"
    BROKEN = "broken"
    TIMEOUT = "timeout"
    NOT_FOUND = "not_found"
    BAD_STATUS = "bad_status"
    SIZE_MISMATCH = "size_mismatch"
    CHECKSUM_MISMATCH = "checksum_mismatch"
    NOT_AN_ARTIFACT = "not_an_artifact"
    SCHEMA_VERSION_MISMATCH = "schema_version_mismatch"
    ROW_COUNT_MISMATCH = "row_count_mismatch"
    MIN_TS_MISMATCH = "min_ts_mismatch"
    MAX_TS_MISMATCH = "max_ts_mismatch"
    UNKNOWN_SCHEMA_VERSION = "unknown_schema_version"
    DISK_FULL = "disk_full"


CODES: Final[Mapping[FetchFailure, ErrorCode]] = MappingProxyType(
    {
        FetchFailure.REFUSED_URL: ErrorCode.PROTOCOL,
        FetchFailure.UNREACHABLE: ErrorCode.UNAVAILABLE,
        FetchFailure.BROKEN: ErrorCode.UNAVAILABLE,
        FetchFailure.TIMEOUT: ErrorCode.UNAVAILABLE,
        FetchFailure.NOT_FOUND: ErrorCode.NOT_FOUND,
        FetchFailure.BAD_STATUS: ErrorCode.UNAVAILABLE,
        FetchFailure.SIZE_MISMATCH: ErrorCode.PROTOCOL,
        FetchFailure.CHECKSUM_MISMATCH: ErrorCode.PROTOCOL,
        FetchFailure.NOT_AN_ARTIFACT: ErrorCode.PROTOCOL,
        FetchFailure.SCHEMA_VERSION_MISMATCH: ErrorCode.PROTOCOL,
        FetchFailure.ROW_COUNT_MISMATCH: ErrorCode.PROTOCOL,
        FetchFailure.MIN_TS_MISMATCH: ErrorCode.PROTOCOL,
        FetchFailure.MAX_TS_MISMATCH: ErrorCode.PROTOCOL,
        FetchFailure.UNKNOWN_SCHEMA_VERSION: ErrorCode.PROTOCOL,
        FetchFailure.DISK_FULL: ErrorCode.RESOURCE_EXHAUSTED,
    }
)

FINAL: Final = frozenset({FetchFailure.UNKNOWN_SCHEMA_VERSION})
"""What another attempt cannot cure. Anything else may be better from another worker, and costs an attempt."""


class FetchError(Exception):
    """Inside the fetcher: the reason, and the sentence about it."""

    def __init__(self, failure: FetchFailure, why: str) -> None:
        super().__init__(why)
        self.failure: Final = failure
        self.why: Final = why


class BrokenOffError(FetchError):
    """The connection broke in the middle: what is missing may be asked for once more."""

    def __init__(self, why: str) -> None:
        super().__init__(FetchFailure.BROKEN, why)
