"""How to reach S3, or a service that speaks its protocol. Options that are not set come from the environment
(`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`…), or from the
machine's own identity."""

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.store import S3Store

from quarterdeck.core.errors import ErrorCode, QuarterdeckError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config

_WHOLE_REQUEST = timedelta(days=1)
"""A large object may take its time; `read_timeout_s` ends what has stopped moving."""


@dataclass(frozen=True, slots=True)
class S3Options:
    endpoint: str | None = None
    """None is Amazon's own for the region. With `virtual_hosted` it has the bucket in it."""
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    allow_http: bool = False
    """Without it nothing is sent but under TLS."""
    virtual_hosted: bool = False
    skip_signature: bool = False
    """For public buckets: no credentials are looked for."""
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 20.0
    """How long a response may stand still. Lower finds a dead peer sooner; higher bears with a slow one."""
    max_retries: int = 4
    """For one request, with growing waits. A higher number survives longer outages; a lower one reports them sooner."""
    retry_timeout_s: float = 30.0
    """No retry begins later than this after the first try."""

    def open_bucket(self, bucket: str) -> S3Store:
        """A client for one bucket; it connects when it is used."""
        if self.endpoint is not None and self.endpoint.startswith("http://") and not self.allow_http:
            raise QuarterdeckError(
                ErrorCode.INVALID_ARGUMENT,
                f"the S3 endpoint {self.endpoint} is not used",
                "it is without TLS, and that is not allowed",
                "use https://, or allow http where nobody can listen",
            )
        client: ClientConfig = {
            "allow_http": self.allow_http or os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true"),
            "connect_timeout": timedelta(seconds=self.connect_timeout_s),
            "read_timeout": timedelta(seconds=self.read_timeout_s),
            "timeout": _WHOLE_REQUEST,
        }
        retry: RetryConfig = {
            "max_retries": self.max_retries,
            "retry_timeout": timedelta(seconds=self.retry_timeout_s),
        }
        return S3Store(bucket, config=self._config(), client_options=client, retry_config=retry)

    def _config(self) -> "S3Config":
        config: S3Config = {}
        if self.endpoint is not None:
            config["endpoint"] = self.endpoint
        if self.region is not None:
            config["region"] = self.region
        if self.access_key_id is not None:
            config["access_key_id"] = self.access_key_id
        if self.secret_access_key is not None:
            config["secret_access_key"] = self.secret_access_key
        if self.session_token is not None:
            config["session_token"] = self.session_token
        if self.virtual_hosted:
            config["virtual_hosted_style_request"] = True
        if self.skip_signature:
            config["skip_signature"] = True
        return config
