"""Our side of a duel over HTTP: a coordinator and its workers, which hold the same samples as the engine here."""

import json

from quarterdeck.metrics.promql.memory import Series
from tests.differential import answers
from tests.differential.answers import Answer, Crash
from tests.differential.cases import Candidate, Case, asked
from tests.differential.peer import PrometheusClient


class CrewCandidate(Candidate):
    """Answers by asking the coordinator."""

    def __init__(self, series: tuple[Series, ...], client: PrometheusClient) -> None:
        super().__init__(series, shards=1)
        self._client = client

    def answer(self, case: Case) -> Answer:
        """What the crew says."""
        try:
            reply = asked(self._client, case)
            if reply["status"] != "success" and reply["errorType"] not in {"bad_data", "execution"}:
                return Crash(f"{reply['errorType']}: {reply['error']}")
            return answers.told(reply)
        except (json.JSONDecodeError, LookupError, ValueError) as error:
            return Crash(f"the reply makes no sense: {error!r}")
