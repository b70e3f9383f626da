"""Numbers with the prefixes of SI, as short as an axis or a legend wants them."""

import math
from decimal import Decimal
from typing import Final

_PREFIXES: Final = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


def short_number(value: float, digits: int = 4) -> str:
    """A few digits and a prefix.

    >>> [short_number(value) for value in (0, 1234567, 0.00125, -2e-7, 999.99, 1e-30, float("nan"), float("-inf"))]
    ['0', '1.235M', '1.25m', '-200n', '1k', '1e-30', 'NaN', '-Inf']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return exact_number(Decimal(f"{value:.{digits}g}"))


def exact_number(value: Decimal) -> str:
    """All its digits, and a prefix.

    >>> exact_number(Decimal("1500")), exact_number(Decimal("0.0005")), exact_number(Decimal("1000002.5"))
    ('1.5k', '500µ', '1.0000025M')
    """
    if not value:
        return "0"
    exponent = value.adjusted() // 3 * 3
    prefix = _PREFIXES.get(exponent)
    if prefix is None:
        return f"{value.normalize():e}".replace("e+", "e")
    return f"{value.scaleb(-exponent).normalize():f}{prefix}"
