"""What the reader takes and refuses, compared with the parser of Prometheus' own Python client."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client.openmetrics import parser

from quarterdeck.metrics.importing.errors import SourceError
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.promql import labels as lb
from tests.metrics.importing.files import Sample, samples, write

families_of = cast("Callable[[str], Iterable[Any]]", parser.text_string_to_metric_families)


def by_peer(text: str) -> list[Sample]:
    return [
        (
            lb.from_mapping({**one.labels, lb.METRIC_NAME: one.name}),
            round(float(one.timestamp) * 1000),
            float(one.value),
        )
        for family in families_of(text)
        for one in family.samples
    ]


@pytest.mark.parametrize(
    "lines",
    [
        "a 1 2",
        "a 1 2.5",
        "a 1 1.5e3",
        "a{} 1 2",
        'a{b="c"} 1 2',
        'a{b="c",d="e f # g"} 1 2',
        r'a{b="\\\"\n"} 1 2',
        'a{b=""} 1 2',
        'a{b="é"} 1 2',
        '# TYPE "a.b" gauge\n{"a.b",c="d"} 1 2',
        '# TYPE "a.b" gauge\n{"a.b","c.d"="e"} 1 2',
        "a +Inf 2\na -Inf 3",
        "a 1e10 2",
        "a -1.5E-3 2",
        '# TYPE a counter\n# HELP a some\\nhelp\na_total{b="c"} 1 2 # {t="x"} 0.5 1',
        "# TYPE a counter\na_total 1 2 # {} 0.5",
        '# TYPE a_s histogram\n# UNIT a_s s\na_s_bucket{le="+Inf"} 2 3\na_s_count 2 3\na_s_sum 4 3',
        '# TYPE a summary\na{quantile="0.5"} 1 2\na_count 1 2\na_sum 2 2',
        '# TYPE a info\na_info{v="1"} 1 2',
        '# TYPE a stateset\na{a="on"} 1 2\na{a="off"} 0 2',
        '# TYPE a gaugehistogram\na_bucket{le="+Inf"} 2 3\na_gcount 2 3\na_gsum 4 3',
        "# TYPE a unknown\na 1 2",
    ],
)
def test_both_read_the_same(lines: str, tmp_path: Path) -> None:
    text = f"{lines}\n# EOF\n"
    assert samples(OpenMetricsReader(write(tmp_path, text))) == by_peer(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a 1 2\n",
        "a 1 2\n# EO\n",
        "a 1 2\n# EOF\na 1 3\n# EOF\n",
        "a 1 2\n# EOF\n\n",
        "\na 1 2\n# EOF\n",
        "# comment\na 1 2\n# EOF\n",
        "# TYPE a\n# EOF\n",
        "# TYPE a untyped\na 1 2\n# EOF\n",
        "# UNIT a seconds\na 1 2\n# EOF\n",
        "a x 2\n# EOF\n",
        "a 1_0 2\n# EOF\n",
        "a 1 x\n# EOF\n",
        "a 1 NaN\n# EOF\n",
        "a 1 2 3\n# EOF\n",
        "a  1 2\n# EOF\n",
        "1a 1 2\n# EOF\n",
        '{b="c"} 1 2\n# EOF\n',
        'a{b="c",b="d"} 1 2\n# EOF\n',
        'a{1b="c"} 1 2\n# EOF\n',
        "a{b=c} 1 2\n# EOF\n",
        'a{b="c 1 2\n# EOF\n',
        'a{b="c"b="d"} 1 2\n# EOF\n',
        "# TYPE a counter\na_total 1 2 # x\n# EOF\n",
        "# TYPE a counter\na_total 1 2 # {} x\n# EOF\n",
    ],
)
def test_both_refuse(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - it says no more
        by_peer(text)
    with pytest.raises(SourceError):
        samples(OpenMetricsReader(write(tmp_path, text)))


@pytest.mark.parametrize(
    "lines",
    [
        "a 1 2\nb 1 2\na 1 3",  # a family in two places
        "a 1 3\na 1 2",  # times go back
        "a 1 2\n# TYPE a gauge",  # metadata after samples
        "# TYPE a counter\na_total -1 2",  # a counter below zero
        '# TYPE a histogram\na_bucket{le="1"} 1 2',  # no bucket for +Inf
        'a 1 2 # {t="x"} 1',  # an exemplar of a gauge
    ],
)
def test_rules_between_lines_are_left_to_the_peer(lines: str, tmp_path: Path) -> None:
    text = f"{lines}\n# EOF\n"
    with pytest.raises(ValueError):  # noqa: PT011 - it says no more
        by_peer(text)
    assert samples(OpenMetricsReader(write(tmp_path, text)))


@pytest.mark.parametrize("lines", [r'a{b="\x"} 1 2', "a 1e999 2", "a -NaN 2"])
def test_what_would_be_another_value_is_refused_here_only(lines: str, tmp_path: Path) -> None:
    text = f"{lines}\n# EOF\n"
    by_peer(text)
    with pytest.raises(SourceError):
        samples(OpenMetricsReader(write(tmp_path, text)))
