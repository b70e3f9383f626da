"""Where an import writes: into the lake of the crew at the given URL, so that this crew finds the samples.

The crew is asked for its lake. Folders are written directly, if they are on this machine. A bucket or a database server
is opened with the command's own keys, and must be the crew's. If no crew answers, the import goes only to a place that
somebody named, or to a folder that a crew has used.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from quarterdeck.capability import Capability
from quarterdeck.capability.settings import configuration
from quarterdeck.config import CoordinatorSettings, InvalidSettingsError
from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.local_crew.crew_plan import COORDINATOR
from quarterdeck.metrics.lake_routes import LAKE_PATH, endpoint_of
from quarterdeck.metrics.settings import MetricsSettings
from quarterdeck.stores.database.opening import place_of
from quarterdeck.stores.file_marks import FileMark, mark_of
from quarterdeck.stores.locations import parse_location
from quarterdeck.stores.objects import ObjectStores, S3Options
from quarterdeck.terminal.client import Access, Client, NoCoordinatorError
from quarterdeck.terminal.options import DEFAULT_DATA_DIR, parse_settings
from quarterdeck.terminal.telling import printable

_CATALOG_FILE: Final = "catalog.db"
_SEGMENTS_FOLDER: Final = "segments"


@dataclass(frozen=True, slots=True)
class TargetOrder:
    """What somebody said about where it is to go."""

    capabilities: Sequence[Capability]
    """Whose settings there are."""
    access: Access
    data_dir: Path | None = None
    config: Path | None = None
    settings: Sequence[str] = field(default=(), repr=False)
    offline: bool = False
    """Whether no crew is asked."""


@dataclass(frozen=True, slots=True)
class LakeTarget:
    """Where it goes."""

    database_url: str = field(repr=False)
    lake_url: str
    s3: S3Options
    store_timeout_s: float
    orphan_grace_s: float
    crew: str | None
    """The address of the crew that reads there; None: none was asked, or none answers."""

    @property
    def shown(self) -> str:
        """For people; without what it takes to open it."""
        catalog, segments = place_of(self.database_url), parse_location(self.lake_url)
        lake = None if catalog.file is None else catalog.file.parent
        if lake is not None and (catalog.file, segments.path) == (lake / _CATALOG_FILE, lake / _SEGMENTS_FOLDER):
            return printable(str(lake))
        return printable(f"{segments.url}, with the catalog {catalog.shown}")

    @property
    def told(self) -> str:
        """With whose it is."""
        return self.shown if self.crew is None else f"{self.shown}, the lake of the crew at {self.crew}"

    def objects(self) -> ObjectStores:
        return ObjectStores(self.s3, timeout_s=self.store_timeout_s)


def find_target(order: TargetOrder) -> LakeTarget:
    """Raises when that is not clear, or when it cannot be reached from here. What is to be known before anything is
    written is said on stderr."""
    place = {} if order.data_dir is None else {"data_dir": order.data_dir / COORDINATOR}
    try:
        loader = configuration(order.capabilities)
        settings = loader.load_coordinator(order.config, {**parse_settings(order.settings), **place})
    except InvalidSettingsError as error:
        raise InvalidSettingsError(COORDINATOR, error.problems, "the lake was not opened") from None
    lake = settings.section(MetricsSettings)
    own = LakeTarget(
        settings.database_url,
        parse_location(lake.lake_url).url,
        S3Options(**settings.s3.options()),
        settings.store_timeout_s,
        lake.orphan_grace_s,
        None,
    )
    if order.offline or order.data_dir is not None:
        if order.data_dir is None:
            _insist_on_place(settings, "no crew was asked")
        return own
    client = Client(order.access)
    try:
        document = client.get(LAKE_PATH)
        is_known = _is_known(client, order.access)
    except NoCoordinatorError as error:
        why = f"no crew answers at {client.url} ({error.why})"
        _insist_on_place(settings, why)
        sys.stderr.write(f"{why}; the one that is started with {own.shown} will have it\n")
        return own
    if not is_known:
        raise _stranger(client)
    return _of_crew(client, _read(client, document), settings, own)


# Of a crew


def _is_known(client: Client, access: Access) -> bool:
    """Whether who answers may say where samples are written: somebody named its token, or allowed what is not
    protected, or it has the certificate that was asked for, or it is a process of this user. Anybody else on this
    machine can listen on a port."""
    named = access.insecure or access.token() is not None or client.url.startswith("https://")
    return named or client.authorization() is not None


@dataclass(frozen=True, slots=True)
class _Part:
    """The catalog, or the segments, as the crew tells of them."""

    setting: str
    what: str
    place: str
    mark: FileMark | None

    def is_at(self, place: str) -> bool:
        """Whether a place is this one, maybe by another path."""
        if place == self.place or self.mark is None:
            return place == self.place
        other = mark_of(Path(place))
        are_there = (other.path, self.mark.path) == (place, self.place)
        return are_there and replace(other, path=self.place) == self.mark


@dataclass(frozen=True, slots=True)
class _CrewLake:
    machine: str
    catalog: _Part
    segments: _Part
    endpoint: str | None
    region: str | None
    orphan_grace_s: float


def _read(client: Client, document: Any) -> _CrewLake:
    def part(setting: str, what: str, told: Any) -> _Part:
        found = told["mark"]
        mark = None
        if found is not None:
            mark = FileMark(str(found["path"]), int(found["device"]), int(found["inode"]), str(found["boot"]))
        return _Part(setting, what, str(told["place"]), mark)

    try:
        s3: dict[str, Any] = document["s3"] or {}
        return _CrewLake(
            str(document["machine"]),
            part("database_url", "the catalog", document["catalog"]),
            part("metrics.lake_url", "the segments", document["segments"]),
            None if s3.get("endpoint") is None else str(s3["endpoint"]),
            None if s3.get("region") is None else str(s3["region"]),
            float(document["orphan_grace_s"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise client.stranger(f"what it says about its lake cannot be read ({error!r})") from None


def _of_crew(client: Client, crew: _CrewLake, settings: CoordinatorSettings, own: LakeTarget) -> LakeTarget:
    for part in (crew.catalog, crew.segments):
        if part.mark is not None and not part.mark.is_here:
            raise _elsewhere(client, crew)
    same_catalog = crew.catalog.is_at(place_of(own.database_url).shown)
    if "database_url" in settings.model_fields_set and not same_catalog:
        raise _differs(client, crew.catalog, place_of(own.database_url).shown)
    if "lake_url" in settings.section(MetricsSettings).model_fields_set and not crew.segments.is_at(own.lake_url):
        raise _differs(client, crew.segments, own.lake_url)
    if crew.catalog.mark is None and not same_catalog:
        raise _needs_database(client, crew.catalog)
    s3 = own.s3
    if crew.segments.mark is None:
        endpoint = endpoint_of(s3)
        if endpoint is None:
            s3 = replace(s3, endpoint=crew.endpoint, allow_http=s3.allow_http or _is_clear(crew.endpoint))
        elif endpoint != crew.endpoint:
            raise _differs(client, replace(crew.segments, setting="s3.endpoint", place=str(crew.endpoint)), endpoint)
        s3 = replace(s3, region=s3.region or crew.region)
    return replace(
        own,
        database_url=own.database_url if crew.catalog.mark is None else crew.catalog.place,
        lake_url=crew.segments.place,
        s3=s3,
        orphan_grace_s=crew.orphan_grace_s,
        crew=client.url,
    )


def _is_clear(endpoint: str | None) -> bool:
    """The crew's own traffic is without TLS there, so this command's is."""
    return endpoint is not None and endpoint.startswith("http://")


# Without a crew


def _insist_on_place(settings: CoordinatorSettings, why: str) -> None:
    """Somebody named the place, or a crew has used the one that is taken by default."""
    given = settings.model_fields_set
    is_named = "database_url" in given and "lake_url" in settings.section(MetricsSettings).model_fields_set
    if "data_dir" in given or is_named:
        return
    folder = DEFAULT_DATA_DIR.absolute()
    if (folder / COORDINATOR).is_dir() or (folder / "lake" / _CATALOG_FILE).is_file():
        return
    raise QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        "the lake was not opened",
        f"{why}, and {folder} is not the folder of a crew",
        "start one with `quarterdeck up`, say with --url where it is, or name its folder with --data-dir",
    )


# What is wrong


def _stranger(client: Client) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.PERMISSION_DENIED,
        "the lake was not opened",
        f"whoever answers at {client.url} is not known to be a crew of yours, and could name any place to write to",
        "name the crew's token with --token-file, or its folder with --data-dir",
    )


def _elsewhere(client: Client, crew: _CrewLake) -> QuarterdeckError:
    places = " and ".join(
        f"{part.what} {part.place}" for part in (crew.catalog, crew.segments) if part.mark is not None
    )
    return QuarterdeckError(
        ErrorCode.UNAVAILABLE,
        "the lake was not opened",
        f"the crew at {client.url} has {places} on the disk of {crew.machine}, which is not seen from here",
        "run the command there, or give the crew a lake that both can reach: metrics.lake_url and database_url",
    )


def _differs(client: Client, part: _Part, own: str) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        "the lake was not opened",
        f"the crew at {client.url} has {part.what} at {part.place}, and {part.setting} is {own} here: the crew would "
        "not find it",
        f"leave {part.setting} out of --set, --config and the environment, name the crew that reads there with --url, "
        "or write without a crew: --offline",
    )


def _needs_database(client: Client, part: _Part) -> QuarterdeckError:
    return QuarterdeckError(
        ErrorCode.INVALID_ARGUMENT,
        "the lake was not opened",
        f"the crew at {client.url} has its catalog at {part.place}, and does not tell the password",
        "name it with user and password: as database_url in the file of --config, or in the environment as "
        "QUARTERDECK_COORDINATOR_DATABASE_URL",
    )
