"""An engine that plans a query once, however many times and over however many shards it is asked.

A plan is frozen and knows nothing of samples. Planning takes as long as evaluating where the samples are few.
"""

from functools import lru_cache
from typing import Final

from quarterdeck.metrics.promql.engine import Engine, EngineOptions
from quarterdeck.metrics.promql.plan.pipeline import QueryPlan

_KEPT: Final = 8_192
"""More than the queries of one script, in all ways."""


class PlanningOnce(Engine):
    """Keeps its plans. A query that is refused is planned again, to be refused again."""

    def __init__(self, options: EngineOptions | None = None) -> None:
        super().__init__(options)
        self._planned = lru_cache(_KEPT)(super().plan)

    def plan(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> QueryPlan:
        return self._planned(text, start_ms, end_ms, step_ms)
