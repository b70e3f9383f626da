"""Feeds the PromQL parser with text that a coverage-guided fuzzer makes up (`python -m checks.fuzz_parser -runs=9999`).

Whatever comes in, a tree comes out that prints and parses again to the same tree, or a `ParseError`; anything else is
a crash, which the fuzzer reports with the input. Arguments are libFuzzer's.
"""

import sys

import atheris  # pyright: ignore[reportMissingTypeStubs]

with atheris.instrument_imports(include=["quarterdeck.metrics.promql"]):  # pyright: ignore
    from quarterdeck.metrics.promql.errors import ParseError
    from quarterdeck.metrics.promql.plan.rules.check_types import check_types
    from quarterdeck.metrics.promql.syntax.parser import parse
    from quarterdeck.metrics.promql.syntax.printer import show

_WORDS = (
    'sum by (a) (rate(m{b=~"c.*",d!="e"}[5m] offset -1h @ start()))',
    "histogram_quantile(0.9, sum without (x) (h_bucket)) > bool on(y) group_left(z) -1e-3",
    'max_over_time(foo{"utf-8.name"=`x`}[1h:5m] @ 1.5) atan2 vector(0x1F) or absent(bar) unless NaN ^ +Inf',
)


def try_text(data: bytes) -> None:
    """Parse one input, every other time a query that parses, with a piece of the input put somewhere into it."""
    text = data[2:].decode("utf-8", "replace")
    if data and data[0] % 2:
        word = _WORDS[data[0] // 2 % len(_WORDS)]
        place = (data[1] if len(data) > 1 else 0) % len(word)
        text = word[:place] + text + word[place + data[0] % 5 :]
    try:
        tree = parse(text)
        check_types(tree, text)
    except ParseError:
        return
    if parse(show(tree)) != tree:
        raise AssertionError(f"{text!r} prints as {show(tree)!r}, which is another query")


if __name__ == "__main__":
    atheris.Setup(sys.argv, try_text)
    atheris.Fuzz()
