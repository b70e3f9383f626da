"""Recruiters over HTTP: to register with, to recruit from."""

import json
import ssl as tls
from collections.abc import Callable, Sequence
from random import Random

from quarterdeck.http.client import HttpClientError, Origin, split_address
from quarterdeck.http.tenants import headers_of
from quarterdeck.recruiter.model import Offer, Recruited
from quarterdeck.recruiter.peers import ANSWER_S, CONNECT_S, JSON_HEADERS, Peers, whole, words
from quarterdeck.recruiter.ports import Registered, RegistrationFailedError
from quarterdeck.recruiter.wire import parse_directive, parse_given


def _nobody_listens(why: str) -> None:
    """Where nobody reads the log."""


class _Recruiters(Peers):
    async def _ask(self, url: str, path: str, document: object, patience_s: float, tenant: str) -> bytes:
        """The answer, or a `RegistrationFailedError` with the reason."""
        try:
            origin, prefix = split_address(url)
            body = json.dumps(document, separators=(",", ":")).encode()
            headers = {**JSON_HEADERS, **headers_of(tenant)}
            answer = await self.client.post(origin, f"{prefix.rstrip('/')}{path}", body, headers, patience_s)
            try:
                text = await whole(answer)
            finally:
                answer.close()
        except (HttpClientError, ValueError) as error:
            raise RegistrationFailedError(f"{url}: {error}") from error
        if answer.status != 200:
            raise RegistrationFailedError(f"{url} answered {answer.status}: {words(text)}")
        return text


class HttpRegistry(_Recruiters):
    """Implements `ports.Registry`."""

    async def register(self, recruiter: str, offer: Offer, timeout_s: float) -> Registered:
        document = {
            "addr": offer.addr,
            "node_name": offer.node,
            "timeout": max(1, round(timeout_s * 1000)),
            "labels": sorted(offer.labels),
            "slots": offer.slots,
        }
        text = await self._ask(recruiter, "/recruiter/register", document, timeout_s + ANSWER_S, offer.tenant)
        try:
            return parse_directive(text)
        except ValueError as error:
            raise RegistrationFailedError(f"{recruiter} answered what cannot be understood: {error}") from error


class HttpRecruiting(_Recruiters):
    """Implements `ports.Recruiting`: one recruiter by chance first, then the next ones for what is missing."""

    def __init__(
        self,
        recruiters: Sequence[str],
        chance: Random,
        *,
        authorize: Callable[[Origin], str | None] | None = None,
        ssl: tls.SSLContext | None = None,
        on_trouble: Callable[[str], None] = _nobody_listens,
    ) -> None:
        """`on_trouble` is told why a recruiter was passed over."""
        super().__init__(authorize=authorize, ssl=ssl)
        self._recruiters = tuple(dict.fromkeys(recruiters))
        self._chance = chance
        self._on_trouble = on_trouble

    async def recruit(self, number: int, label: str, tenant: str) -> Sequence[Recruited]:
        found: list[Recruited] = []
        for recruiter in self._chance.sample(self._recruiters, len(self._recruiters)):
            missing = number - len(found)
            if missing <= 0:
                break
            document: dict[str, object] = {"number_requested": missing}
            if label:
                document["label"] = label
            try:
                text = await self._ask(recruiter, "/recruiter/recruit", document, CONNECT_S, tenant)
                found += parse_given(text, missing, tenant)
            except RegistrationFailedError as error:
                self._on_trouble(str(error))
            except ValueError as error:
                self._on_trouble(f"{recruiter} answered what cannot be understood: {error}")
        return found
