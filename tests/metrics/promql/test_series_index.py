"""The index of series takes exactly those that every matcher accepts."""

import pytest

from quarterdeck.metrics.promql.labels import get
from quarterdeck.metrics.promql.series_index import SeriesIndex
from quarterdeck.metrics.promql.syntax.ast import Matcher, MatchOp
from quarterdeck.metrics.promql.syntax.matchers import accepts
from tests.each_seed import each_seed
from tests.metrics.segments.stored import Chance


@each_seed(range(20))
def test_those_are_taken_whose_labels_all_matchers_accept(seed: int) -> None:
    chance = Chance(seed)
    series = [chance.labels() for _ in range(chance.number(0, 15))]
    index = SeriesIndex(series)
    for _ in range(30):
        matchers = chance.matchers()
        taken = index.matching(matchers, lambda _: None).tolist()
        assert taken == [all(accepts(one, get(labels, one.name)) for one in matchers) for labels in series]


def test_who_no_longer_waits_stops_it() -> None:
    def stop(size_bytes: int) -> None:
        assert size_bytes == 0
        raise TimeoutError

    with pytest.raises(TimeoutError):
        SeriesIndex([(("a", "b"),)]).matching([Matcher("a", MatchOp.EQUAL, "b")], stop)
