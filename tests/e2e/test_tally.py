"""A capability that is not of Quarterdeck's own, through real processes: everything that it contributes is there."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.crew import Crew
from tests.e2e.door import RefusedError

pytestmark = pytest.mark.xdist_group("e2e-tally")

PROGRAM = ("-m", "tests.tally")


def test_a_capability_from_outside_has_its_route_setting_table_metric_work_readiness_figures_and_command(
    tmp_path: Path,
) -> None:
    with Crew(tmp_path, program=PROGRAM) as crew:
        coordinator = crew.coordinator(tally__most_characters=30).wait_up()
        worker = crew.worker("w1", join=[coordinator.control], kinds="tally", tally__least_letters=3)
        coordinator.wait_for(worker)

        # Its route, its kind of work with the setting of the worker, and its table.
        assert coordinator.door.post("/v1/tally", {"text": "a quick brown fox"}) == {"words": 3, "words_of_all": 3}
        assert coordinator.door.post("/v1/tally", {"text": "one more"}) == {"words": 2, "words_of_all": 5}
        # Its setting in the coordinator.
        with pytest.raises(RefusedError, match=r"400: .*raise tally\.most_characters"):
            coordinator.door.post("/v1/tally", {"text": "x" * 31})
        # Its figures for autoscalers, of both processes, and its metric.
        assert coordinator.door.get("/monitor/scaling")["tallies_running"] == 0
        assert worker.door.get("/monitor/scaling")["texts_counted"] == 2
        assert coordinator.door.metric("quarterdeck_coordinator_tally_words_total") == 5
        # What a query is called, and its documentation.
        assert [query["kind"] for query in coordinator.door.get("/v1/queries")] == ["tally", "tally"]
        assert "/v1/tally" in coordinator.door.get("/openapi.json")["paths"]
        # Its command.
        command = [sys.executable, *PROGRAM, "tally", "three small words", "--url", coordinator.http]
        told = subprocess.run(
            [*command, "--token-file", str(tmp_path / "crew-token")], capture_output=True, text=True, check=True
        )
        assert told.stdout == "3 words, 8 of all texts\n"
        # Its table is kept.
        coordinator.stay().kill()
        coordinator.start().wait_up()
        coordinator.wait_for(worker)
        assert coordinator.door.post("/v1/tally", {"text": "again"}) == {"words": 1, "words_of_all": 9}


def test_what_a_capability_misses_is_told_by_both_processes(tmp_path: Path) -> None:
    with Crew(tmp_path, program=PROGRAM) as crew:
        coordinator = crew.coordinator(tally__is_open="false").wait_up()
        worker = crew.worker("w1", join=[coordinator.control], kinds="tally", tally__is_open="false")
        coordinator.wait_for(worker)
        for member in (coordinator, worker):
            with pytest.raises(RefusedError, match=r"503: .*the tally is closed"):
                member.door.get("/ready")
