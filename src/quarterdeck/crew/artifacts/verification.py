"""Whether a file is what was announced. Nothing is believed: not the sender, not the network, not the disk."""

from quarterdeck.core.workcoord.model import Artifact
from quarterdeck.crew.artifacts.failures import FetchError, FetchFailure
from quarterdeck.crew.artifacts.format import KNOWN_SCHEMA_VERSIONS, Stamp
from quarterdeck.crew.artifacts.parquet import Footer


def insist_known_version(artifact: Artifact) -> None:
    """Before anything is fetched."""
    version = artifact.parquet_schema_version
    if version not in KNOWN_SCHEMA_VERSIONS:
        known = ", ".join(map(str, sorted(KNOWN_SCHEMA_VERSIONS)))
        raise FetchError(
            FetchFailure.UNKNOWN_SCHEMA_VERSION,
            f"it has schema version {version}, we know {known}; run one version of Quarterdeck everywhere",
        )


def insist_bytes(artifact: Artifact, size_bytes: int, checksum: str) -> None:
    _insist_same(FetchFailure.SIZE_MISMATCH, "size in bytes", artifact.size_bytes, size_bytes)
    _insist_same(FetchFailure.CHECKSUM_MISMATCH, "checksum", artifact.checksum, checksum)


def insist_footer(artifact: Artifact, footer: Footer) -> None:
    _insist_same(FetchFailure.ROW_COUNT_MISMATCH, "row count", artifact.row_count, footer.row_count)
    try:
        stamp = Stamp.decoded(footer.metadata)
    except ValueError as error:
        raise FetchError(FetchFailure.NOT_AN_ARTIFACT, f"it is a Parquet file, but no artifact: {error}") from error
    insist_stamp(artifact, stamp)


def insist_stamp(artifact: Artifact, stamp: Stamp) -> None:
    version = artifact.parquet_schema_version
    _insist_same(FetchFailure.SCHEMA_VERSION_MISMATCH, "schema version", version, stamp.schema_version)
    _insist_same(FetchFailure.ROW_COUNT_MISMATCH, "row count", artifact.row_count, stamp.row_count)
    _insist_same(FetchFailure.MIN_TS_MISMATCH, "min_ts", artifact.min_ts, stamp.min_ts)
    _insist_same(FetchFailure.MAX_TS_MISMATCH, "max_ts", artifact.max_ts, stamp.max_ts)


def _insist_same(failure: FetchFailure, what: str, announced: object, found: object) -> None:
    if announced != found:
        raise FetchError(failure, f"its {what} is {found}, announced was {announced}")
