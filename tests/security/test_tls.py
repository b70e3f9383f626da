"""TLS files: good ones work with a real peer, and each way of being bad is told at the start."""

import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.security.tls import TlsFiles
from tests.security.certificates import THE_FUTURE, THE_PAST, Crew


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    return Crew(tmp_path)


def refusal(load: Callable[[], TlsFiles]) -> str:
    with pytest.raises(QuarterdeckError) as refused:
        load()
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    return str(refused.value)


def exchange(server: ssl.SSLContext, client: ssl.SSLContext, hostname: str) -> tuple[bytes, str | None, bool]:
    """A word over a real connection: what arrived, the TLS version, and whether the server saw a certificate."""
    inner, outer = socket.socketpair()
    seen: list[bool] = []

    def serve() -> None:
        with inner, server.wrap_socket(inner, server_side=True) as end:
            seen.append(end.getpeercert(binary_form=True) is not None)
            end.sendall(b"aye")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with outer, client.wrap_socket(outer, server_hostname=hostname) as end:
            return end.recv(3), end.version(), seen[0]
    finally:
        thread.join()


def test_two_processes_of_one_crew_talk(crew: Crew) -> None:
    one = TlsFiles(*crew.issue("one"), crew.authority)
    other = TlsFiles(*crew.issue("other"), crew.authority)
    assert exchange(one.server_context(), other.client_context(), "localhost")[:2] == (b"aye", "TLSv1.3")


def test_a_client_without_a_certificate_is_served(crew: Crew) -> None:
    files = TlsFiles(*crew.issue("one"), crew.authority)
    browser = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    browser.load_verify_locations(crew.authority)
    assert exchange(files.server_context(), browser, "localhost") == (b"aye", "TLSv1.3", False)


def test_a_client_shows_its_certificate_to_who_asks(crew: Crew) -> None:
    files = TlsFiles(*crew.issue("one"), crew.authority)
    strict = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    strict.verify_mode = ssl.CERT_REQUIRED
    strict.load_cert_chain(files.certificate, files.key)
    strict.load_verify_locations(crew.authority)
    strict.maximum_version = ssl.TLSVersion.TLSv1_2
    assert exchange(strict, files.client_context(), "localhost") == (b"aye", "TLSv1.2", True)


@pytest.mark.parametrize("name", ["another.example", "10.0.0.1"])
def test_a_client_refuses_a_server_of_another_name(crew: Crew, name: str) -> None:
    context = TlsFiles(*crew.issue("one"), crew.authority).client_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = TlsFiles(*crew.issue("other"), crew.authority).server_context()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    client_end = context.wrap_bio(to_client, to_server, server_hostname=name)
    for end in (client_end, server_end):
        with pytest.raises(ssl.SSLWantReadError):
            end.do_handshake()
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        client_end.do_handshake()


def test_nothing_below_tls_1_2_is_spoken(crew: Crew) -> None:
    files = TlsFiles(*crew.issue("one"), crew.authority)
    assert files.server_context().minimum_version is ssl.TLSVersion.TLSv1_2
    assert files.client_context().minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_bytes_for_grpc_are_those_of_the_files(crew: Crew) -> None:
    files = TlsFiles(*crew.issue("one"), crew.authority)
    assert files.certificate_pem == files.certificate.read_bytes()
    assert files.key_pem == files.key.read_bytes()
    assert files.authority_pem == crew.authority.read_bytes()


def test_the_key_is_not_in_the_representation(crew: Crew) -> None:
    files = TlsFiles(*crew.issue("one"), crew.authority)
    assert "PRIVATE" not in repr(files)
    assert str(files.key) in repr(files)


def test_it_tells_when_the_certificate_ends(crew: Crew) -> None:
    files = TlsFiles(*crew.issue("one", not_after=THE_FUTURE), crew.authority)
    assert files.expires_at_s == THE_FUTURE.timestamp()


@pytest.mark.parametrize("missing", ["certificate", "key", "authority"])
def test_a_missing_file_is_named_with_its_setting(crew: Crew, missing: str) -> None:
    certificate, key = crew.issue("one")
    paths = {"certificate": certificate, "key": key, "authority": crew.authority}
    paths[missing] = crew.folder / "nowhere.pem"
    text = refusal(lambda: TlsFiles(paths["certificate"], paths["key"], paths["authority"]))
    assert "nowhere.pem cannot be read: No such file" in text
    assert f"tls_{missing}" in text


@pytest.mark.parametrize("broken", ["certificate", "key", "authority"])
@pytest.mark.parametrize("text", ["not PEM", "-----BEGIN CERTIFICATE-----\nPRIVATE KEY-----\nAAAA\n"])
def test_a_file_that_is_not_pem_is_named(crew: Crew, broken: str, text: str) -> None:
    certificate, key = crew.issue("one")
    paths = {"certificate": certificate, "key": key, "authority": crew.authority}
    paths[broken] = crew.folder / "broken.pem"
    paths[broken].write_text(text)
    text = refusal(lambda: TlsFiles(paths["certificate"], paths["key"], paths["authority"]))
    assert "broken.pem" in text
    assert "cannot be used" in text


def test_a_key_of_another_certificate_does_not_fit(crew: Crew) -> None:
    certificate, _ = crew.issue("one")
    _, key = crew.issue("other")
    text = refusal(lambda: TlsFiles(certificate, key, crew.authority))
    assert f"the key {key} does not fit the certificate {certificate}" in text


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(crew: Crew) -> None:
    certificate, key = crew.issue("one")
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    key.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, locked))
    text = refusal(lambda: TlsFiles(certificate, key, crew.authority))
    assert "it has a passphrase, and there is nobody to ask for it" in text


def test_an_expired_certificate_is_named_with_its_dates(crew: Crew) -> None:
    certificate, key = crew.issue("one", not_after=THE_PAST)
    text = refusal(lambda: TlsFiles(certificate, key, crew.authority))
    assert f"the certificate {certificate} has expired" in text
    assert "to 2020-01-01 00:00 UTC" in text
    assert "have it renewed" in text


def test_a_certificate_of_tomorrow_is_not_valid_yet(crew: Crew) -> None:
    certificate, key = crew.issue("one", not_before=THE_FUTURE, not_after=datetime(2950, 1, 1, tzinfo=UTC))
    text = refusal(lambda: TlsFiles(certificate, key, crew.authority))
    assert "is not valid yet" in text
    assert "from 2900-01-01" in text


def test_the_clock_decides_what_has_expired(crew: Crew) -> None:
    files = crew.issue("one", not_after=THE_FUTURE)
    end_s = THE_FUTURE.timestamp()
    assert TlsFiles(*files, crew.authority, wall_clock=lambda: end_s - 1).expires_at_s == end_s
    assert "has expired" in refusal(lambda: TlsFiles(*files, crew.authority, wall_clock=lambda: end_s))


def test_a_certificate_of_another_authority_is_refused(crew: Crew) -> None:
    certificate, key = crew.issue("one")
    stranger = crew.folder / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    text = refusal(lambda: TlsFiles(certificate, key, stranger))
    assert f"{certificate} was not signed by the authority {stranger}" in text


@pytest.mark.parametrize("usage", ["serverAuth", "clientAuth"])
def test_a_certificate_for_one_role_only_is_refused(crew: Crew, usage: str) -> None:
    certificate, key = _with_usage(crew, usage)
    assert "extended key usage" in refusal(lambda: TlsFiles(certificate, key, crew.authority))


def test_an_expired_authority_is_named(crew: Crew) -> None:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _signed("authority", authority_key, "authority", authority_key, None, until=THE_PAST)
    leaf_key = ec.generate_private_key(ec.SECP256R1())
    leaf = _signed("one", leaf_key, "authority", authority_key, ["serverAuth", "clientAuth"], until=THE_FUTURE)
    certificate, key, old = crew.folder / "a.pem", crew.folder / "a.key", crew.folder / "old.pem"
    certificate.write_bytes(leaf)
    key.write_bytes(_pem(leaf_key))
    old.write_bytes(authority)
    text = refusal(lambda: TlsFiles(certificate, key, old))
    assert f"the authority {old} cannot be used" in text
    assert "certificate has expired" in text


USAGES = {
    "serverAuth": x509.oid.ExtendedKeyUsageOID.SERVER_AUTH,
    "clientAuth": x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH,
}


def _with_usage(crew: Crew, usage: str) -> tuple[Path, Path]:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    crew.authority.write_bytes(_signed("authority", authority_key, "authority", authority_key, None, until=THE_FUTURE))
    leaf_key = ec.generate_private_key(ec.SECP256R1())
    certificate, key = crew.folder / "leaf.pem", crew.folder / "leaf.key"
    certificate.write_bytes(_signed("one", leaf_key, "authority", authority_key, [usage], until=THE_FUTURE))
    key.write_bytes(_pem(leaf_key))
    return certificate, key


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    usages: list[str] | None,
    until: datetime,
) -> bytes:
    """A certificate; without usages, that of an authority."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=usages is None, path_length=None), critical=True)
    )
    if usages is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([USAGES[usage] for usage in usages]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
