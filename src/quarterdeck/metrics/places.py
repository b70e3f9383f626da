"""Where segments are in the lake, by name: staged while they are imported, and published when the catalog lists them.

    tenant/import/00000-checksum-run.parquet                     published
    _staging/run/tenant/import/00000-checksum-run.parquet.part   staged

A run of an import has names of its own, so no name is ever used again: a segment that is not listed, and is older than
any running import, will never be listed. Staged segments end with `.part`, so that nobody who asks for Parquet files
finds them. Any other name is not ours.
"""

import re
from enum import StrEnum
from typing import Final
from urllib.parse import quote

_STAGING: Final = "_staging"
STAGING_PREFIX: Final = f"{_STAGING}/"
_PART: Final = ".part"
_NAME: Final = r"\d{5,}-[0-9a-f]{16}(?:-(?P<run>[0-9a-f]{8}))?\.parquet"
"""Before runs had a name of their own there was none in it."""
_FOLDER: Final = r"(?P<tenant>[^/]+)/[0-9a-f]{16}"
_PUBLISHED: Final = re.compile(rf"(?!_){_FOLDER}/{_NAME}")
_STAGED: Final = re.compile(rf"{_STAGING}/(?P<of>[0-9a-f]{{8}})/(?P<place>{_FOLDER}/{_NAME}){re.escape(_PART)}")
_UNFINISHED: Final = re.compile(
    rf"(?:{_STAGING}/[0-9a-f]{{8}}/)?[^/]+/[0-9a-f]{{16}}/"
    rf"\.\d{{5,}}-[0-9a-f]{{16}}(?:-[0-9a-f]{{8}})?\.parquet(?:{re.escape(_PART)})?-[0-9a-f]{{8}}{re.escape(_PART)}"
)
"""What a write of a local file leaves that broke off; see `stores.durable_file`."""


class PlaceKind(StrEnum):
    PUBLISHED = "published"
    STAGED = "staged"
    UNFINISHED = "unfinished"


def folder_of(tenant: str, import_id: str) -> str:
    """Of one import; the tenant is a name for a folder, which `.` and `..` are not."""
    return f"{tenant_folder(tenant)}/{import_id[:16]}"


def tenant_folder(tenant: str) -> str:
    """
    >>> tenant_folder("a/b"), tenant_folder("_x")
    ('a%2Fb', '%5Fx')
    """
    name = quote(tenant, safe="").replace(".", "%2E")
    return f"%5F{name[1:]}" if name.startswith("_") else name


def place_of(folder: str, number: int, checksum: str, run: str) -> str:
    """Where a segment is to be; `checksum` in hexadecimal, `run` eight digits of it."""
    return f"{folder}/{number:05d}-{checksum[:16]}-{run}.parquet"


def staged(place: str) -> str | None:
    """Where it is until it is published; None of one that was never staged."""
    found = _PUBLISHED.fullmatch(place)
    return None if found is None or found["run"] is None else f"{_STAGING}/{found['run']}/{place}{_PART}"


def published(place: str) -> str | None:
    """Where a staged one is to be; None of one that is not staged."""
    found = _STAGED.fullmatch(place)
    return None if found is None else found["place"]


def folders_of_run(place: str) -> int:
    """How many folders above it are its run's alone, and of no use when they are empty."""
    return 3 if place.startswith(STAGING_PREFIX) else 0


def kind_of(place: str) -> PlaceKind | None:
    """None: it is not ours."""
    if _PUBLISHED.fullmatch(place):
        return PlaceKind.PUBLISHED
    if _STAGED.fullmatch(place):
        return PlaceKind.STAGED
    return PlaceKind.UNFINISHED if _UNFINISHED.fullmatch(place) else None
