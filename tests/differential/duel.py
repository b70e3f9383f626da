"""Asks both engines the same and keeps what differs and is not known to."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.blocks import is_stale
from quarterdeck.metrics.promql.errors import ParseError
from quarterdeck.metrics.promql.memory import Series
from quarterdeck.metrics.promql.syntax import ast
from quarterdeck.metrics.promql.syntax.parser import parse
from tests.differential.answers import Answer, Crash, Failure, Table, Text, compare, order_differs
from tests.differential.cases import Candidate, Case, Peer
from tests.differential.dataset import BASE_MS, SPAN_MS
from tests.differential.known import Finding, excuse
from tests.differential.minimise import minimised
from tests.differential.trees import without_parens

_PICKS: Final = frozenset({ast.AggregateOp.TOPK, ast.AggregateOp.BOTTOMK})


class Duel:
    """Our engine and Prometheus over the same samples."""

    def __init__(self, candidate: Candidate, peer: Peer) -> None:
        self._candidate = candidate
        self._peer = peer
        self.asked = Counter[str]()
        """How many cases failed, and how many had an answer with something or with nothing in it."""
        self.excused = Counter[str]()
        """How many findings each known difference explained."""

    def check(self, case: Case) -> Finding | None:
        """What is wrong with our answer to a case, or None."""
        their = self._peer.answer(case)
        self.asked[_sort(their)] += 1
        finding = self._finding(case, their)
        known = None if finding is None else excuse(finding, self._candidate)
        if known is None:
            return finding
        self.excused[known.name] += 1
        return None

    def smallest(self, finding: Finding) -> Finding:
        """The finding again, of the smallest part of the query that shows one."""
        return minimised(finding, self._recheck)

    def _recheck(self, case: Case) -> Finding | None:
        """As `check`, without counting."""
        finding = self._finding(case, self._peer.answer(case))
        return None if finding is None or excuse(finding, self._candidate) is not None else finding

    def _finding(self, case: Case, their: Answer) -> Finding | None:
        our, tree = self._candidate.answer(case), _tree(case.text)
        difference = compare(our, their)
        if difference is None and case.instant and _has_order(tree):
            difference = order_differs(our, their)
        return None if difference is None else Finding(case, tree, our, their, difference)


def _sort(answer: Answer) -> str:
    match answer:
        case Failure() | Crash():
            return "failed"
        case Text():
            return "text"
        case Table(series=series):
            return "answered" if series else "empty"


def _tree(text: str) -> ast.Expr | None:
    try:
        return parse(text)
    except ParseError:
        return None


def _has_order(tree: ast.Expr | None) -> bool:
    """Whether the series of the answer come in an order that the query asked for."""
    match without_parens(tree):
        case ast.Call(function="sort" | "sort_desc"):
            return True
        case ast.Aggregation(op=op, grouping=(), without=False) if op in _PICKS:
            return True
        case _:
            return False


def missing_samples(series: Iterable[Series], peer: Peer) -> list[str]:
    """What was written and cannot be read back from Prometheus, as lines of text; none when all is there."""
    written = Counter[str]()
    for one in series:
        written[lb.get(one.labels, lb.METRIC_NAME)] += int(np.count_nonzero(~is_stale(one.values)))
    end_s = (BASE_MS + SPAN_MS) // 1000 + 60
    lines = list[str]()
    for name, count in written.items():
        answer = peer.answer(Case(f"sum(count_over_time({name}[4h]))", end_s, end_s, 0))
        found = answer.column if isinstance(answer, Table) else answer
        if found != [count]:
            lines.append(f"{name}: wrote {count}, found {found}")
    return lines
