"""A crew behind TLS and a token: who has not both is told so and counted, and whoever has is served all the while."""

import asyncio
import http.client
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

import grpc
import pytest

from quarterdeck.control.credentials import channel_credentials
from quarterdeck.control.dialer import GrpcDialer, Identity
from quarterdeck.control.link import LinkClosedError
from quarterdeck.core.workcoord.messages import Register
from quarterdeck.core.workcoord.model import WorkerStatus
from quarterdeck.security.tls import TlsFiles
from tests.e2e.bystander import Bystander
from tests.e2e.crew import Coordinator, Crew, Worker, until
from tests.e2e.door import Door, Figures, RefusedError, Scan
from tests.e2e.impostors import Impostor, worker_info
from tests.e2e.lake import Lake, burning, same
from tests.security.certificates import Crew as Authority

pytestmark = pytest.mark.xdist_group("e2e-strangers")

TOKEN = "a-token-that-only-this-crew-has"
REJECTED = "quarterdeck_coordinator_callers_rejected_total"


@dataclass(frozen=True, slots=True)
class Fort:
    """One coordinator and one worker, with certificates and a token."""

    coordinator: Coordinator
    worker: Worker
    authority: Authority

    def client_files(self) -> TlsFiles:
        certificate, key = self.authority.folder / "client.pem", self.authority.folder / "client.key"
        return TlsFiles(certificate, key, self.authority.authority)


@pytest.fixture(scope="module")
def fort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fort]:
    folder = tmp_path_factory.mktemp("fort")
    authority = Authority(folder)
    certificate, key = authority.issue("client")
    files = TlsFiles(certificate, key, authority.authority)
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    settings = {"tls_authority": authority.authority, "token_file": token, "reading_needs_token": True}

    def issued(name: str) -> dict[str, object]:
        certificate, key = authority.issue(name)
        return {**settings, "tls_certificate": certificate, "tls_key": key}

    with Crew(folder, Door(context=files.client_context(), token=TOKEN)) as crew:
        coordinator = crew.coordinator("inside", **issued("coordinator"))
        worker = crew.worker("guard", join=[coordinator.control], queue_places=64, **issued("worker"))
        coordinator.wait_for(worker)
        yield Fort(coordinator, worker, authority)


@pytest.fixture
def undisturbed(fort: Fort, lake: Lake) -> Iterator[None]:
    with Bystander(fort.coordinator, lake.files[:8]):
        yield


def test_a_crew_behind_tls_and_a_token_answers_as_any_other(fort: Fort, lake: Lake) -> None:
    assert fort.coordinator.http.startswith("https://")
    assert fort.worker.http.startswith("https://")
    answer = fort.coordinator.door.scan(Scan(burning(0.1), [lake.source]))
    assert same(answer.table, lake.truth(burning(0.1)))


def counted(fort: Fort, before: Figures, reason: str) -> None:
    until(
        lambda: fort.coordinator.door.metrics()[REJECTED][reason,] == before[REJECTED][reason,] + 1,
        f"{REJECTED} has counted {reason}",
    )


@pytest.mark.parametrize("token", [None, "a-token-of-some-other-crew"])
def test_a_request_without_the_token_is_refused(fort: Fort, undisturbed: None, token: str | None) -> None:
    before = fort.coordinator.door.metrics()
    for member in (fort.coordinator, fort.worker):
        stranger = Door(member.http, member.door.context, token)
        for method, path in (("POST", "/v1/scan"), ("GET", "/metrics"), ("GET", "/artifacts/x"), ("GET", "/v1/crew")):
            with pytest.raises(RefusedError, match="token") as refused:
                stranger.ask(method, path)
            assert refused.value.status == http.client.UNAUTHORIZED
        assert stranger.get("/health")["status"] == "ok"
    assert fort.coordinator.door.metrics()[REJECTED]["http_token",] - before[REJECTED]["http_token",] == 4
    assert fort.worker.door.metric("quarterdeck_worker_callers_rejected_total", "http_token") >= 4


def test_a_request_that_is_not_encrypted_is_refused(fort: Fort, undisturbed: None) -> None:
    before = fort.coordinator.door.metrics()
    with pytest.raises((http.client.HTTPException, OSError)):
        Door(fort.coordinator.http.replace("https", "http"), token=TOKEN).ask("GET", "/health")
    counted(fort, before, "http_handshake")


def test_a_client_that_does_not_trust_the_authority_leaves_and_is_counted(fort: Fort, undisturbed: None) -> None:
    before = fort.coordinator.door.metrics()
    with pytest.raises(ssl.SSLCertVerificationError):
        Door(fort.coordinator.http, ssl.create_default_context(), TOKEN).ask("GET", "/health")
    counted(fort, before, "http_handshake")


async def closing_words(fort: Fort, identity: Identity, credentials: grpc.ChannelCredentials | None) -> str:
    """Why a worker of that kind was not let in."""
    dialer = GrpcDialer(identity, credentials=credentials)
    try:
        link = await dialer.dial(fort.coordinator.control)
        await Impostor(link).say(Register(worker_info("stranger"), WorkerStatus(accepting_work=True)))
        reason = await Impostor(link).hear_the_end()
        link.close()
    except LinkClosedError as error:
        reason = str(error)
    finally:
        await dialer.close()
    return reason


@pytest.mark.parametrize("token", [None, "Bearer a-token-of-some-other-crew"])
def test_a_worker_without_the_token_is_not_let_in(fort: Fort, undisturbed: None, token: str | None) -> None:
    before = fort.coordinator.door.metrics()
    credentials = channel_credentials(fort.client_files())

    words = asyncio.run(closing_words(fort, Identity("stranger", lambda _: token), credentials))
    assert "the token is missing or is not the crew's" in words
    assert fort.coordinator.door.metrics()[REJECTED]["control_token",] > before[REJECTED]["control_token",]
    assert "stranger" not in fort.coordinator.workers()


def test_a_worker_without_a_certificate_is_not_let_in(fort: Fort, undisturbed: None) -> None:
    before = fort.coordinator.door.metrics()
    trusting = grpc.ssl_channel_credentials(root_certificates=fort.authority.authority.read_bytes())
    for credentials in (trusting, None):
        words = asyncio.run(closing_words(fort, Identity("stranger", lambda _: f"Bearer {TOKEN}"), credentials))
        assert words
        assert "stranger" not in fort.coordinator.workers()
    until(
        lambda: (
            fort.coordinator.door.metrics()[REJECTED]["control_handshake",]
            >= before[REJECTED]["control_handshake",] + 2
        ),
        "they are counted",
    )
