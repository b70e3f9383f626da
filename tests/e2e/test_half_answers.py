"""Queries that fail: before their first row with an error, after it with a cut; either way the reason is told."""

import http.client

import pytest

from tests.e2e.conftest import FOUR, ROWS
from tests.e2e.crew import Coordinator, Worker
from tests.e2e.door import RefusedError, Scan
from tests.e2e.lake import Lake

pytestmark = pytest.mark.xdist_group("e2e-shared")


def failing_from(row: int) -> str:
    return f"SELECT CASE WHEN id >= {row} THEN error('too far') ELSE id END AS id FROM files"


def test_a_query_that_fails_before_its_first_row_is_an_error_with_its_reason(
    coordinator: Coordinator, hands: list[Worker], lake: Lake
) -> None:
    with pytest.raises(RefusedError, match="too far") as refused:
        coordinator.door.scan(Scan(failing_from(0), [lake.source], FOUR))
    assert (refused.value.status, refused.value.code) == (http.client.UNPROCESSABLE_ENTITY, "work_failed")


def test_a_query_that_fails_after_its_first_rows_is_cut_and_tells_its_reason_to_who_asks(
    coordinator: Coordinator, hands: list[Worker], lake: Lake
) -> None:
    """Half an answer cannot be taken for a whole one. That a query failed is no error of the process."""
    before = coordinator.log.complaints()
    far = Scan(failing_from(50 * ROWS), [lake.source], FOUR)  # not given out before the first result is there
    with coordinator.door.begun(far) as connection:
        response = connection.getresponse()
        assert response.status == http.client.OK
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            response.read()
    query = coordinator.query(str(response.headers["x-query-id"]))
    assert (query["state"], query["error"]["code"]) == ("failed", "work_failed")
    assert "too far" in query["error"]["message"]
    assert coordinator.log.complaints() == before
