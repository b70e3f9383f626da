"""The settings that processes have in common: all of them, and those of the crew.

A settings object holds values and nothing else: made directly, it takes what it is given and reads neither environment
nor file, so that it means the same everywhere. Reading them is `load`'s affair.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, TypeVar

from pydantic import model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from quarterdeck.config.conflicts import Conflict, ConflictError, at_most
from quarterdeck.config.s3 import S3Settings
from quarterdeck.config.section import Section
from quarterdeck.config.values import (
    Allowed,
    Bytes,
    Count,
    File,
    LogFormat,
    LogLevel,
    Places,
    Seconds,
    Sites,
    Switch,
    Texts,
)

SectionT = TypeVar("SectionT", bound=Section)


class ProcessSettings(BaseSettings):
    """What every kind of process is told."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        use_attribute_docstrings=True,
        env_nested_delimiter="__",
        env_ignore_empty=True,  # `VARIABLE=` in a compose file means that nobody has set it
    )

    process: ClassVar[str]
    """The section of the file, and the middle of the names of environment variables."""

    tls_certificate: File | None = None
    """The process's own certificate, PEM, followed by those between it and the authority. Give all three TLS files or
    none: without them nothing is encrypted, and the process may listen only on loopback."""
    tls_key: File | None = None
    """The key of `tls_certificate`, PEM, without a passphrase. Whoever can read it can pass for this process."""
    tls_authority: File | None = None
    """The certificate of the authority that signed the crew's certificates, PEM. Too wide an authority, such as a
    public one, lets strangers into the crew."""
    token_file: File | None = None
    """A file with the token that the crew and its clients share: one line, at least 16 characters. The environment
    variable `QUARTERDECK_TOKEN` may have the token instead. Without either, a process that listens only on loopback
    makes a token in its `data_dir`, which other processes and tools of the same user find by themselves."""
    insecure: Switch = False
    """Whether to listen off loopback without TLS and token, and to send a token over connections without TLS. True
    gives everybody who can reach the address the data, the answers (they may join as workers) and the machine's time,
    and lets everybody on the way read the token. Use it only in networks that let nobody else in."""
    reading_needs_token: Switch | None = None
    """Whether the token is needed on loopback too for what only reads metrics: the API of Prometheus, `/metrics` and
    the like. If not set: yes for a token that somebody gave, no for one that was made at the start, so that Grafana and
    promtool on the same machine work without any setting. Off loopback it is always needed. False lets every user of
    the machine read all metrics."""
    http_names: Texts = ()
    """More names of this server, besides those of loopback. While the server listens only on loopback, the `Host` of a
    request must be one of these names. A proxy on the same machine that passes on the name it was asked for needs this.
    If somebody else can make a name point here, web pages can reach this server by it."""
    http_origins: Sites = ()
    """Web sites whose pages may use this server from a browser (CORS), each as `https://tools.example`. A star stands
    for a part of a name or for any port, as in `https://*.tools.example`; a star alone means every site. Pages of all
    other sites are refused. A site on this list can do whatever its visitors may, and on loopback read what needs no
    token."""
    source_roots: Places = ()
    """Folders and buckets below which callers may name files to scan or search. It does not bind the user who runs the
    process and asks over loopback without a proxy; a proxy is known by the headers it adds, such as `X-Forwarded-For`.
    If empty: what the sections of a coordinator name, such as the lake, and nothing for other processes. So a cluster
    that searches logs needs it for coordinators and workers. Too wide a root shows callers what only the process should
    read."""
    log_format: LogFormat = "auto"
    """`json` writes one object per line, for machines; `console` writes columns, for people; `auto` means `console` on
    a terminal. The wrong one is only hard to read."""
    log_level: LogLevel = "info"
    """The least important records that are written. `debug` writes several for each work and costs throughput; `error`
    hides lost workers and retries."""
    shutdown_max_s: Seconds = 20.0
    """Seconds that ending may take after queries (`shutdown_grace_s`) or works (`drain_max_s`) had their time; then the
    process ends by force. Too low leaves files for the next start to clean up; too high lets an orchestrator lose
    patience and kill it."""
    http_connections_max: Count = 10_000
    """HTTP connections that are open at once; fewer if the system lets the process open fewer files. Beyond it, the
    connection that has been idle longest is closed for a new one; if none is idle, the new one is closed. Too low turns
    clients and workers away; too high lets strangers take memory and descriptors."""
    http_connections_per_address_max: Count = 256
    """HTTP connections of one client address that wait for their client: for the rest of a request, or for the next
    one. Connections that are being answered, such as registrations of workers, do not count. Beyond it, the address
    loses the one that has waited longest. Too low hurts clients behind one proxy; too high lets one client take all."""
    http_bodies_max_bytes: Bytes = 64 * 1024**2
    """Memory for the bodies of all HTTP requests together until they are answered; the first 8 KiB of each do not
    count. A request beyond it gets 503. Too low refuses large requests that come together; too high lets strangers take
    memory."""
    http_body_stall_s: Seconds = 10.0
    """Seconds in which some of a request's body must come. Too low cuts off networks that stutter; too high lets silent
    clients hold memory."""
    http_body_timeout_s: Seconds = 60.0
    """Seconds for the whole body of a request, of at most 4 MiB. Too low cuts off slow networks; too high lets clients
    that send a byte now and then hold memory."""
    http_unread_timeout_s: Seconds = 900.0
    """Seconds in which a client must read some of an answer that waits for it. Too low cuts off people who page through
    an answer; too high keeps results and places in line for clients that hang."""
    store_timeout_s: Seconds = 60.0
    """Seconds that one call to an object store may take, local or not, and each part of a long read. A call that moves
    many bytes has a second more for each MiB. Too low fails reads from disks that are only slow; too high lets queries
    wait for a mount that hangs."""
    s3: Annotated[S3Settings, NoDecode, Allowed("settings of its own: endpoint, region and so on")] = S3Settings()
    """How S3 is reached; see below."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del (
            settings_cls,
            env_settings,
            dotenv_settings,
            file_secret_settings,
        )  # read by `sources`, where origins are known
        return (init_settings,)

    def section(self, kind: type[SectionT]) -> SectionT:
        """The settings that a capability has in this process."""
        for one in self.sections():
            if isinstance(one, kind):
                return one
        raise LookupError(f"the settings of this {self.process} were made without the section {kind.section}")

    def sections(self) -> Iterator[Section]:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Section):
                yield value

    def conflicts(self) -> Iterator[Conflict]:
        """Settings that make no sense together. A subclass adds its own, and each section its own."""
        for section in self.sections():
            yield from section.conflicts(self)
        tls = {name: getattr(self, name) for name in ("tls_certificate", "tls_key", "tls_authority")}
        if 0 < sum(path is None for path in tls.values()) < len(tls):
            yield Conflict(tuple(tls), "TLS takes all three files, or none")
        if self.s3.endpoint is not None and self.s3.endpoint.startswith("http://") and not self.s3.allow_http:
            yield Conflict(("s3.endpoint", "s3.allow_http"), "an endpoint without TLS takes s3.allow_http")
        if (self.s3.access_key_id is None) != (self.s3.secret_access_key is None):
            yield Conflict(("s3.access_key_id", "s3.secret_access_key"), "a key takes its secret, and a secret its key")

    @model_validator(mode="after")
    def _fits_together(self) -> "ProcessSettings":
        conflicts = list(self.conflicts())
        if conflicts:
            raise ConflictError(conflicts)
        return self


class CrewSettings(ProcessSettings):
    """What coordinators and workers are told, who have control streams between them."""

    discovery_interval_s: Seconds = 5.0
    """Seconds between two lookups of the names in `workers_dns` or `join_dns`. Too low bothers the name server; too
    high leaves new processes idle, and dials old ones, for as long."""
    reconnect_first_s: Seconds = 0.1
    """Seconds to wait before the first try to connect again. The wait doubles with each failure, give or take a
    quarter. Too low floods a peer that is starting; too high leaves a worker idle after a hiccup."""
    reconnect_max_s: Seconds = 5.0
    """The longest wait between two tries, in seconds. Too low floods a network that is down; too high leaves a peer
    that is back unused for as long."""

    def conflicts(self) -> Iterator[Conflict]:
        yield from super().conflicts()
        yield from at_most("reconnect_first_s", self.reconnect_first_s, "reconnect_max_s", self.reconnect_max_s)
