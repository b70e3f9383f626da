"""How S3, or what speaks like it, is reached."""

from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr

from quarterdeck.config.values import CountOrZero, Seconds, Secret, Switch, Text, Url


class S3Settings(BaseModel):
    """What is not set comes from the environment variables that other tools read (`AWS_REGION`, `AWS_ACCESS_KEY_ID`…),
    or from the machine's own identity."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True)

    endpoint: Url | None = None
    """Where the service is, if it is not Amazon's own for the region. With `virtual_hosted` the bucket's name is part
    of it. With a wrong one, each query that reads from S3 fails after its retries."""
    region: Text | None = None
    """The region of the buckets. The service refuses a wrong one with a redirect or a bad signature."""
    access_key_id: Text | None = None
    """Our id at the service. Without it and its secret, credentials come from the environment or from the machine's
    identity."""
    secret_access_key: Secret | None = None
    """The secret that goes with `access_key_id`. Never shown in logs and errors."""
    session_token: Secret | None = None
    """For credentials that expire. Never shown in logs and errors. After they expire, queries fail."""
    allow_http: Switch = False
    """Whether to use an endpoint without TLS. True lets everybody on the way read data and requests."""
    virtual_hosted: Switch = False
    """Whether the bucket is in the host name instead of the path. Services other than Amazon's mostly want false."""
    skip_signature: Switch = False
    """For public buckets: send no credentials and look for none. On a private bucket every request is refused."""
    connect_timeout_s: Seconds = 5.0
    """Seconds in which a connection must be made. Too low gives up on a distant service; too high lets a query hang on
    a dead one."""
    read_timeout_s: Seconds = 20.0
    """Seconds that a response may make no progress. Too low breaks off slow downloads; too high finds a dead service
    late."""
    max_retries: CountOrZero = 4
    """How often one request is tried again, with growing waits. Too low turns a hiccup into a failed query; too high
    lets queries wait for a service that is down."""
    retry_timeout_s: Seconds = 30.0
    """Seconds after the first try; later than that no new try begins. Too low makes `max_retries` meaningless; too high
    keeps queries waiting."""

    def options(self) -> dict[str, Any]:
        """All of it by name, secrets in plain text: for the client, and for nobody's log."""
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in ((name, getattr(self, name)) for name in type(self).model_fields)
        }
