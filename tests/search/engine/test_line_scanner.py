"""The compiled reading of lines, beside Python's own reading of JSON."""

import json
import random
import re
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quarterdeck.search.engine import line_scanner
from quarterdeck.search.engine.line_buffer import LineBuffer
from quarterdeck.search.engine.line_call import DEEPEST, ValueKind
from quarterdeck.search.engine.line_scanner import LineScan

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = b" \t\r"


def read(*files: bytes, keys: list[str]) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The records, and how many lines are none."""
    buffer = LineBuffer()
    for file in files:
        buffer.add(file)
    scan = LineScan(buffer, keys)
    return scan.stream().read_all().to_pylist(), scan.bad_lines


def first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def parsed(line: bytes) -> dict[str, Any] | None:
    """The object that a line is; None if it is none. Numbers are told as they stand."""

    def refused(text: str) -> None:
        raise ValueError(text)

    try:
        value: Any = json.loads(
            line.decode(),
            object_pairs_hook=first_of_each,
            parse_int=lambda text: ("number", text),
            parse_float=lambda text: ("number", text),
            parse_constant=refused,
        )
    except (ValueError, RecursionError):
        return None
    is_fine = isinstance(value, dict) and not _SURROGATE.search(json.dumps(value, ensure_ascii=False))
    return cast("dict[str, Any]", value) if is_fine else None


def kind_of(value: Any, raw: str) -> ValueKind:
    match value:
        case None:
            return ValueKind.NULL
        case bool():
            return ValueKind.BOOLEAN
        case str():
            return ValueKind.ESCAPED if "\\" in raw else ValueKind.STRING
        case ("number", text):
            return ValueKind.INTEGER if text.strip("-").isdigit() and text != "-0" else ValueKind.REAL
        case _:
            return ValueKind.NESTED


def trimmed(line: bytes) -> bytes:
    """Without white space, and without a byte order mark."""
    return line.strip(_SPACE).removeprefix(b"\xef\xbb\xbf").strip(_SPACE)


def check(data: bytes, keys: list[str]) -> None:
    """What is read of some bytes is what Python reads of their lines."""
    lines = [line for each in data.split(b"\n") if (line := trimmed(each))]
    records = [(line, record) for line in lines if (record := parsed(line)) is not None]
    rows, bad = read(data, keys=keys)
    assert [row["line"].encode() for row in rows] == [line for line, _ in records]
    assert sum(bad.values()) == len(lines) - len(records)
    for (line, wanted), row in zip(records, rows, strict=True):
        for number, key in enumerate(keys):
            raw, kind = row[f"r{number}"], row[f"c{number}"]
            if key not in wanted:
                assert (raw, kind) == (None, ValueKind.ABSENT), line
            elif wanted[key] is None:
                assert (raw, kind) == (None, ValueKind.NULL), line
            else:
                assert parsed(b'{"it":' + raw.encode() + b"}") == {"it": wanted[key]}, line
                assert kind == kind_of(wanted[key], raw), line


ALL_NAMES = ["a", "b", "key", "a longer key", "é", "𝄞", "a\nb", "", 'q"', "\\", "\x7f"]
SEPARATORS = [(",", ":"), (", ", ": "), (" ,\t", "\t:  "), ("\r,", " :\r")]
SLIPS = [b'"', b"\\", b"\\u", b",", b"}", b"0", b"-", b"e", b"\xc3"]
NAMES = st.sampled_from(ALL_NAMES)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(NAMES, VALUES, max_size=6)
KEYS = st.lists(NAMES, unique=True, max_size=4)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """An object as some program would write it, or a line made of one by a slip."""
    record = draw(RECORDS)
    separators = draw(st.sampled_from(SEPARATORS))
    text = json.dumps(record, ensure_ascii=draw(st.booleans()), separators=separators).encode()
    text = draw(st.sampled_from([b"", b" ", b"\t\r "])) + text + draw(st.sampled_from([b"", b"\r", b" \t"]))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        slip = draw(st.binary(max_size=2) | st.sampled_from(SLIPS))
        text = text[:place] + slip + text[place + draw(st.integers(0, 2)) :]
    return text


@settings(max_examples=60, deadline=None)
@given(st.lists(lines(), max_size=8), KEYS, st.booleans())
def test_every_line_is_read_as_python_reads_it(some: list[bytes], keys: list[str], ends: bool) -> None:
    check(b"\n".join(some) + b"\n" * ends, keys)


def any_value(chance: random.Random, depth: int = 3) -> Any:
    match chance.randrange(9 if depth else 6):
        case 0:
            return chance.choice([None, True, False])
        case 1:
            return chance.choice([0, -1, 10**18, 2**63, -(2**63), 10**30, chance.randrange(-(10**6), 10**6)])
        case 2:
            return chance.choice([0.0, -0.0, 1e-7, 1e300, 5e-324, chance.random(), chance.gauss(0, 1e9)])
        case 6:
            return [any_value(chance, depth - 1) for _ in range(chance.randrange(4))]
        case 7 | 8:
            return any_record(chance, depth - 1, 3)
        case _:
            ends = (0x80, 0x80, 0x80, 0x100, 0xD800, 0x110000)
            points = (chance.randrange(chance.choice(ends)) for _ in range(chance.choice((0, 1, 5, 15, 16, 17, 80))))
            return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)


def any_record(chance: random.Random, depth: int, most: int) -> dict[str, Any]:
    return {chance.choice(ALL_NAMES): any_value(chance, depth) for _ in range(chance.randrange(most + 1))}


def any_line(chance: random.Random) -> bytes:
    """As `lines` makes them."""
    separators = chance.choice(SEPARATORS)
    text = json.dumps(any_record(chance, 3, 6), ensure_ascii=chance.random() < 0.5, separators=separators).encode()
    text = chance.choice([b"", b" ", b"\t\r "]) + text + chance.choice([b"", b"\r", b" \t"])
    for _ in range(chance.randrange(3)):
        place = chance.randrange(len(text) + 1)
        slip = chance.choice([*SLIPS, chance.randbytes(chance.randrange(3))])
        text = text[:place] + slip + text[place + chance.randrange(3) :]
    return text


@pytest.mark.parametrize("seed", range(10))
def test_thousands_of_random_lines_are_read_as_python_reads_them(seed: int) -> None:
    """Hypothesis takes longer for each line than both that read it, and looks where it hurts; chance has more lines."""
    chance = random.Random(seed)
    for _ in range(100):
        some = [any_line(chance) for _ in range(chance.randrange(9))]
        check(b"\n".join(some) + b"\n" * chance.randrange(2), chance.sample(ALL_NAMES, chance.randrange(5)))


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from('{}[]:,"\\au0019.eE+-tfn \u00e9\u20ac\U0001d11e\ud800'), max_size=40))
@example('{"a":1}{"a":1}')
@example('{"a":1,}')
@example('{"a":[1,]}')
@example('{"a":[,1]}')
@example('{,"a":1}')
@example('{"a":01}')
@example('{"a":.5}')
@example('{"a":1.}')
@example('{"a":1e}')
@example('{"a":+1}')
@example('{"a":-}')
@example('{"a":NaN}')
@example('{"a":-Infinity}')
@example('{"a":tru}')
@example('{"a":nullx}')
@example('{"a":}')
@example('{"a"}')
@example('{"a":1]')
@example('{"a":[1}}')
@example('{"a":{"b":[]},"a":2}')
@example('{"a":null,"a":2}')
@example('{"\\u0061":[],"a":{}}')
@example('{"\\ud834\\udd1e":1,"\\u00e9":2,"\\n":3,"a\\nb":4,"\\"":5,"\\/":6}')
@example('{"a":"\\ud834"}')
@example('{"a":"\\udd1e\\ud834"}')
@example('{"a":"\\ud834\\u0041"}')
@example('{"a":"\\x"}')
@example('{"a":"\\u12g4"}')
@example('{"a":-0,"b":-0.0,"key":0}')
@example('{"a":1E5,"b":1e-5,"key":123456789012345678901234567890}')
@example("{}")
@example("[]")
@example('"a"')
@example("\ufeff{}")
@example("\ufeff\n\ufeff \ufeff{}\n \ufeff {}\n{}\ufeff")
@example("{\n{")
def test_whatever_is_made_of_what_json_is_made_of(text: str) -> None:
    check(text.encode("utf-8", "surrogatepass"), ["a", "b", "key", "é", "𝄞", "a\nb", '"', "/"])


@pytest.mark.parametrize("length", [*range(70), 4096])
def test_strings_of_every_length_end_where_they_end(length: int) -> None:
    text = "x" * length
    for value in (text, text + "é", text + "\\n", "€" * length, text + '\\"', text + "𝄞" + text):
        check(b'{"key":"' + value.encode() + b'","b":1}', ["b", "key"])


@pytest.mark.parametrize("first", range(0x80, 0x100))
def test_utf_8_is_checked_as_python_checks_it(first: int) -> None:
    edges = (0x22, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
    rows = [
        b'{"a":"' + bytes([first, *rest]) + b'"}'
        for rest in [(), *((one,) for one in edges), *((one, two) for one in edges for two in edges)]
    ]
    rows += [b'{"a":"' + bytes([first, one, 0x80, last]) + b'"}' for one in edges for last in edges]
    check(b"\n".join(rows), ["a"])


def test_more_lines_than_fit_into_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_scanner, "_ROOM", 8)
    some = [b'{"a":%d}' % number if number % 3 else b"bad" for number in range(100)]
    check(b"\n".join(some), ["a", "b"])


def test_bad_lines_are_counted_for_their_file_and_a_file_ends_with_its_line() -> None:
    files = (b'{"a":1}\n{"a":2}', b"", b'bad\n{"a":', b'3}\n\n{"a":4}\n')
    rows, bad = read(*files, keys=["a"])
    assert [row["r0"] for row in rows] == ["1", "2", "4"]
    assert bad == {2: 2, 3: 1}


def test_nesting_has_a_limit() -> None:
    deep = DEEPEST - 1
    rows, bad = read(b'{"a":' + b"[" * deep + b"]" * deep + b"}\n" + b'{"a":' + b"[" * (deep + 1), keys=["a"])
    assert (len(rows), bad) == (1, {0: 1})


def test_a_bad_line_leaves_nothing_of_its_values_to_the_next() -> None:
    rows, bad = read(b'{"a":1,"b":"a text that is not short","c":{"d":1},\n{"d":1}', keys=["a", "b", "c"])
    assert bad == {0: 1}
    kinds = {f"{column}{number}": value for number in range(3) for column, value in (("r", None), ("c", 0))}
    assert rows == [{"line": '{"d":1}'} | kinds]


def test_memory_that_was_used_before_is_not_read() -> None:
    buffer = LineBuffer()
    buffer.hold(b'{"a":"' + b"x" * 1000 + b'"}\n' * 10)
    buffer.hold(b'{"a":1')
    scan = LineScan(buffer, ["a"])
    assert scan.stream().read_all().num_rows == 0
    assert scan.bad_lines == {0: 1}


def test_what_was_not_read_is_counted_in_the_end() -> None:
    buffer = LineBuffer()
    buffer.hold(b'bad\n{"a":1}\nbad')
    scan = LineScan(buffer, ["a"])
    stream = scan.stream()
    assert scan.bad_lines == {}
    scan.finish()
    scan.finish()
    assert scan.bad_lines == {0: 2}
    del stream
