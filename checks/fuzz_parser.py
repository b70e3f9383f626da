"""Feeds a parser with text that a coverage-guided fuzzer makes up (`python -m checks.fuzz_parser promql -runs=9999`).

`promql` is the parser of PromQL, `search` that of the search language. Whatever comes in, a tree comes out that prints
and parses again to the same tree, or the parser's own error; anything else is a crash, which the fuzzer reports with
the input. The other arguments are libFuzzer's.
"""

import sys

import atheris  # pyright: ignore[reportMissingTypeStubs]

with atheris.instrument_imports(include=["quarterdeck.metrics.promql", "quarterdeck.search.language"]):  # pyright: ignore
    from quarterdeck.metrics.promql.errors import ParseError
    from quarterdeck.metrics.promql.plan.rules.check_types import check_types
    from quarterdeck.metrics.promql.syntax.parser import parse
    from quarterdeck.metrics.promql.syntax.printer import show
    from quarterdeck.search.language.errors import SearchSyntaxError
    from quarterdeck.search.language.fields import referenced_fields
    from quarterdeck.search.language.parser import parse_search
    from quarterdeck.search.language.printer import to_text

_PROMQL = (
    'sum by (a) (rate(m{b=~"c.*",d!="e"}[5m] offset -1h @ start()))',
    "histogram_quantile(0.9, sum without (x) (h_bucket)) > bool on(y) group_left(z) -1e-3",
    'max_over_time(foo{"utf-8.name"=`x`}[1h:5m] @ 1.5) atan2 vector(0x1F) or absent(bar) unless NaN ^ +Inf',
)
_SEARCHES = (
    'level=error and (status>=500 or "conn \\u00e9 reset") !b | count(), avg(ms) as mean by `a b`, c.d | sort -r mean',
    "[now-1h30m, 2026-01-31 12:00:00.5+02:00] path=~'^/api/\\d+' host!=web-? ~\"a|b\" | cut path | uniq -c | tail 5",
    'not not x = ~y or =~"(a\\"b)" t<.5 | fields | sort field desc, count asc | sum(count), min(field) as least',
)


def try_promql(data: bytes) -> None:
    """One input for the parser of PromQL."""
    text = _mixed(data, _PROMQL)
    try:
        tree = parse(text)
        check_types(tree, text)
    except ParseError:
        return
    if parse(show(tree)) != tree:
        raise AssertionError(f"{text!r} prints as {show(tree)!r}, which is another query")


def try_search(data: bytes) -> None:
    """One input for the parser of the search language."""
    text = _mixed(data, _SEARCHES)
    try:
        tree = parse_search(text)
    except SearchSyntaxError:
        return
    referenced_fields(tree)
    if parse_search(to_text(tree)) != tree:
        raise AssertionError(f"{text!r} prints as {to_text(tree)!r}, which is another search")


def _mixed(data: bytes, words: tuple[str, ...]) -> str:
    """The input as text; every other time a text that parses, with a piece of the input put somewhere into it."""
    text = data[2:].decode("utf-8", "replace")
    if data and data[0] % 2:
        word = words[data[0] // 2 % len(words)]
        place = (data[1] if len(data) > 1 else 0) % len(word)
        text = word[:place] + text + word[place + data[0] % 5 :]
    return text


if __name__ == "__main__":
    targets = {"promql": try_promql, "search": try_search}
    atheris.Setup([sys.argv[0], *sys.argv[2:]], targets[sys.argv[1]])
    atheris.Fuzz()
