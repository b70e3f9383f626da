"""Whether a process may listen: on loopback always, elsewhere with protection or an explicit word."""

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.security.exposure import Exposure, check_exposure, is_loopback

OPEN = [
    "0.0.0.0",
    "::",
    "",
    "192.168.1.5",
    "fe80::1",
    "worker-3.example",
    "localhost.example",
    "127.0.0.1.example",
    "::2",
]
LOOPBACK = ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost", "LOCALHOST", "localhost.", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    assert check_exposure("it", host, has_tls=False, has_token=False, insecure=False) is Exposure.LOOPBACK


@pytest.mark.parametrize("host", OPEN)
def test_elsewhere_needs_tls_and_a_token(host: str) -> None:
    assert not is_loopback(host)
    assert check_exposure("it", host, has_tls=True, has_token=True, insecure=False) is Exposure.PROTECTED


@pytest.mark.parametrize("host", OPEN)
def test_elsewhere_without_protection_is_refused(host: str) -> None:
    with pytest.raises(QuarterdeckError) as refused:
        check_exposure("the HTTP server", host, has_tls=False, has_token=False, insecure=False)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert f"the HTTP server may not listen on {host or 'all addresses'}" in str(refused.value)


def test_the_refusal_names_the_three_ways_out() -> None:
    with pytest.raises(QuarterdeckError) as refused:
        check_exposure("it", "0.0.0.0", has_tls=False, has_token=False, insecure=False)
    step = refused.value.next_step
    assert "127.0.0.1" in step
    assert all(setting in step for setting in ("tls_certificate", "tls_key", "tls_authority", "token_file"))
    assert "insecure" in step


@pytest.mark.parametrize(
    "has_tls, has_token, missing", [(True, False, "it has no token"), (False, True, "it has no TLS files")]
)
def test_half_a_protection_is_none(has_tls: bool, has_token: bool, missing: str) -> None:
    with pytest.raises(QuarterdeckError) as refused:
        check_exposure("it", "0.0.0.0", has_tls=has_tls, has_token=has_token, insecure=False)
    assert refused.value.why.endswith(missing)


def test_open_on_purpose_is_told_apart() -> None:
    assert check_exposure("it", "0.0.0.0", has_tls=False, has_token=False, insecure=True) is Exposure.INSECURE
    assert check_exposure("it", "0.0.0.0", has_tls=True, has_token=True, insecure=True) is Exposure.PROTECTED
