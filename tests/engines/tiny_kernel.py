"""A function to be compiled: it adds one to the number at an address."""

# pyright: basic, reportMissingTypeStubs=false, reportCallIssue=false

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def _increase(context, address):
    def emit(_, builder, __, arguments):
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        more = builder.add(builder.load(place), ir.Constant(ir.IntType(64), 1))
        builder.store(more, place)
        return more

    return types.int64(types.int64), emit


def increase(address):
    return _increase(address)
