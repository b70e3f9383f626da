"""`GET /v1/lake`: where the catalog and the segments are, so that a command writes where this coordinator reads.

It tells places, but nothing that opens them: no user, no password, no key. Whoever has the token may read it.
"""

import os
import socket
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter

from quarterdeck.stores.database.opening import place_of
from quarterdeck.stores.file_marks import mark_of
from quarterdeck.stores.locations import parse_location
from quarterdeck.stores.objects import ObjectStores, S3Options

LAKE_PATH: Final = "/v1/lake"
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """What a coordinator was told about its lake."""

    database_url: str
    lake_url: str
    s3: S3Options
    orphan_grace_s: float


def lake_router(settings: LakeSettings, objects: ObjectStores) -> APIRouter:
    """One path."""
    router = APIRouter(tags=["metrics"])
    catalog, segments = place_of(settings.database_url), parse_location(settings.lake_url)

    async def marked(path: Path | None) -> dict[str, object] | None:
        if path is None:
            return None
        return asdict(await objects.look(path, partial(mark_of, path)))

    @router.get(LAKE_PATH)
    async def lake() -> dict[str, object]:
        """Where the catalog and the segments of metrics are, without the keys and passwords that open them.

        For local ones, `mark` shows a program that sees the same path whether it is the same file.
        """
        bucket = segments.bucket is not None
        return {
            "machine": socket.gethostname(),
            "catalog": {"place": catalog.shown, "mark": await marked(catalog.file)},
            "segments": {"place": segments.url, "mark": await marked(segments.path)},
            "s3": {"endpoint": endpoint_of(settings.s3), "region": region_of(settings.s3)} if bucket else None,
            "orphan_grace_s": settings.orphan_grace_s,
        }

    _ = lake
    return router


def endpoint_of(s3: S3Options) -> str | None:
    """Where the service is, without a user and a password; None is Amazon's own."""
    given = s3.endpoint or next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES)), None)
    if given is None:
        return None
    parts = urlsplit(given)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")


def region_of(s3: S3Options) -> str | None:
    return s3.region or next(filter(None, map(os.environ.get, _REGION_VARIABLES)), None)
