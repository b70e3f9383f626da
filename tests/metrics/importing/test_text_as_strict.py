"""Reading many lines at once gives what reading them strictly one by one gives, for right and for wrong lines."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quarterdeck.metrics.importing import line_source, text_reader
from quarterdeck.metrics.importing.batches import SampleReader
from quarterdeck.metrics.importing.dialects import OPENMETRICS, PROMETHEUS_TEXT, Dialect
from quarterdeck.metrics.importing.errors import Malformed, SourceError
from quarterdeck.metrics.importing.openmetrics import OpenMetricsReader
from quarterdeck.metrics.importing.prometheus_text import PrometheusTextReader
from quarterdeck.metrics.importing.sample_lines import read_sample
from quarterdeck.metrics.promql import labels as lb
from quarterdeck.metrics.promql.floats import show_float
from tests.metrics.importing.files import Sample, samples, write


def named(name: str, more: dict[str, str]) -> lb.Labels:
    return lb.from_mapping({**{key: value for key, value in more.items() if key}, lb.METRIC_NAME: name})


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,5}", fullmatch=True)
ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.text(' #{}",\\\nn=1', max_size=12)
LABELS = st.builds(
    named,
    NAMES | ANY_TEXT.filter(bool),
    st.dictionaries(ANY_TEXT | st.sampled_from(("job", "le", "a_1")), ANY_TEXT, max_size=4),
)
SAMPLES = st.lists(
    st.tuples(LABELS, st.integers(-(10**13), 9 * 10**12), st.floats(allow_nan=False)), min_size=1, max_size=30
)

ATOMS = (
    "up",
    "{",
    "}",
    'a="1"',
    ",",
    " ",
    "1",
    "2.5",
    "# ",
    "{}",
    '"x"',
    "=",
    "\\",
    '"',
    "\t",
    "NaN",
    "e5",
    "é",
    "EOF",
)
LINES = st.lists(st.lists(st.sampled_from(ATOMS), max_size=8).map("".join), max_size=6)
NEAR_LINES = st.lists(
    st.tuples(
        st.sampled_from(("up", 'up{a="1"}', 'up{a=" # {"}', '{"m"}', "up{a}", "", "up{ }")),
        st.sampled_from((" 1", " x", "  1", " NaN", " -nan", " 0x1", "")),
        st.sampled_from((" 5", " 5.0005", " 1e3", " x", " 0x5", "", " ", " 99999999999999999")),
        st.sampled_from(("", "", " ", ' # {a="1"} 1', ' # {a="1",a="1"} 1 1', " # {} NaN 1.5", " # x", "\r", " #")),
    ).map("".join),
    max_size=8,
)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def printed(sample: Sample, digits: str) -> str:
    labels, _, value = sample
    pairs = ",".join(f"{quoted(key)}={quoted(text)}" for key, text in labels if key != lb.METRIC_NAME)
    return f"{{{quoted(lb.get(labels, lb.METRIC_NAME))},{pairs}}} {show_float(value)} {digits}"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(SAMPLES)
def test_what_is_printed_as_openmetrics_is_read_back(tmp_path: Path, given_samples: list[Sample]) -> None:
    lines = [
        printed(one, f"{'-' if one[1] < 0 else ''}{abs(one[1]) // 1000}.{abs(one[1]) % 1000:03}")
        for one in given_samples
    ]
    assert samples(OpenMetricsReader(write(tmp_path, "\n".join([*lines, "# EOF"])))) == given_samples


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(SAMPLES)
def test_what_is_printed_as_prometheus_text_is_read_back(tmp_path: Path, given_samples: list[Sample]) -> None:
    lines = [printed(one, str(one[1])) for one in given_samples]
    assert samples(PrometheusTextReader(write(tmp_path, "\n".join([*lines, ""])))) == given_samples


def one_by_one(lines: list[str], dialect: Dialect, at_ms: int | None) -> tuple[list[Sample], str | None]:
    """The samples of lines without #, and how the error about the first wrong one begins."""
    found: list[Sample] = []
    for number, line in enumerate(lines, 1):
        bare = line.strip(" \t") if dialect.spaced else line
        if not bare and dialect.spaced:
            continue
        try:
            if bare.endswith("\r"):
                raise Malformed("it ends in a carriage return", "")
            if not bare:
                raise Malformed("the line is empty", "")
            labels, time, value = read_sample(bare, dialect, at_ms)
            found.append((labels, time, value))
        except Malformed as fault:
            return found, f"line {number} cannot be imported: {fault.why.replace(chr(13), chr(92) + 'r')}"
    return found, None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    LINES | NEAR_LINES,
    st.sampled_from((OPENMETRICS, PROMETHEUS_TEXT)),
    st.sampled_from((1, 16, 1 << 20)),
    st.sampled_from((None, 7_000)),
)
@example(['up{a=" # {} 1"} 1 5 # {a="1"} 1'], OPENMETRICS, 16, None)
@example(["up 1 5", "up 1 0x5"], PROMETHEUS_TEXT, 1 << 20, None)
@example(["up -nan 5"], OPENMETRICS, 1 << 20, None)
@example(["up 1", "up 2 5", "up x", "up{} 3"], PROMETHEUS_TEXT, 1 << 20, 7_000)
@example(['up 1 # {a="1"} 1', "up 2"], OPENMETRICS, 1 << 20, 7_000)
def test_many_at_once_is_as_one_by_one(
    tmp_path: Path, lines: list[str], dialect: Dialect, piece_bytes: int, at_ms: int | None
) -> None:
    lines = [line for line in lines if not line.lstrip(" \t").startswith("#")]
    expected, wrong = one_by_one(lines, dialect, at_ms)
    reader = (OpenMetricsReader if dialect is OPENMETRICS else PrometheusTextReader)(
        write(tmp_path, "".join(f"{line}\n" for line in lines) + ("# EOF\n" if dialect.has_end else "")), at_ms=at_ms
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_source, "PIECE_BYTES", piece_bytes)
        patch.setattr(text_reader, "BATCH_SAMPLES", 3)
        if wrong is None:
            assert str(samples(reader)) == str(expected)  # NaN is not equal to itself
        else:
            with pytest.raises(SourceError) as caught:
                samples(reader)
            assert wrong in str(caught.value).replace("\\t", "\t")


WHOLE = (
    "# TYPE a counter\n# HELP a b\\n\n"
    + "".join(f'a_total{{x="é{at % 5}",y="b c"}} {at}.5 {at}.25 # {{t="{at}"}} 1\nb {at} {at}\n' for at in range(40))
    + "# EOF\n"
).encode()


def why_refused(reader: SampleReader) -> str | None:
    """The name of the file, if that is what an error says."""
    try:
        samples(reader)
    except SourceError as error:
        return error.what.partition(" cannot be ")[0].partition(" line ")[0]
    return None


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    for turn in range(60):
        data = bytearray(WHOLE)
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        if turn % 3 == 0:
            del data[int(rng.integers(len(data))) :]
        for reader in (OpenMetricsReader, PrometheusTextReader):
            path = write(tmp_path, bytes(data), "damaged")
            assert why_refused(reader(path)) in (None, str(path))
