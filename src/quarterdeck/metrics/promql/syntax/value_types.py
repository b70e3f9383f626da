"""The four types of values and the words for them, which both signatures and expressions need."""

from enum import StrEnum


class ValueType(StrEnum):
    """What an expression gives, in the words of the interface over HTTP."""

    SCALAR = "scalar"
    VECTOR = "vector"
    MATRIX = "matrix"
    STRING = "string"

    @property
    def shown(self) -> str:
        """The word for it in messages.

        >>> ValueType.MATRIX.shown
        'range vector'
        """
        return _SHOWN[self]


_SHOWN = {
    ValueType.SCALAR: "scalar",
    ValueType.VECTOR: "instant vector",
    ValueType.MATRIX: "range vector",
    ValueType.STRING: "string",
}
