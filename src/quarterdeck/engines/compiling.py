"""Makes object files of Python functions, with numba. Loaded only by the process that compiles.

A function takes an address, and is compiled as it is; or it takes arrays and numbers, and is compiled with a frame
around it that finds them in the words of `array_call`. An object file has one function for others, of the name that
was asked for, which takes an address and returns an integer. Memory it asks for itself, from the C library: there is
none of numba when it runs.
"""

# ruff: noqa: ARG001
# pyright: basic, reportMissingTypeStubs=false, reportCallIssue=false, reportGeneralTypeIssues=false
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any, Final

import numba
import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from quarterdeck.engines import array_call as layout
from quarterdeck.engines.array_call import Argument, Form
from quarterdeck.engines.compiler_process import Job
from quarterdeck.engines.kernel_parts import is_part
from quarterdeck.engines.machine_code import MachineCode, target_machine

# Division by zero gives what IEEE 754 says, as in Go; and no sum may be put in another order.
_OPTIONS: Final = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
_NAMES: Final[dict[int, dict[str, Any]]] = {}
"""By the id of a module's own."""
_ENTRY: Final = """
declare i32 @"{inner}"(ptr, ptr, i64)

define i64 @"{name}"(i64 %address) {{
  %result = alloca i64
  %error = alloca ptr
  %status = call i32 @"{inner}"(ptr %result, ptr %error, i64 %address)
  %is_well = icmp eq i32 %status, 0
  %answer = load i64, ptr %result
  %told = select i1 %is_well, i64 %answer, i64 -1
  ret i64 %told
}}
"""
# What numba's compiled code calls for the memory of arrays that it makes: a head with the number of references and the
# place of the data, as numba/core/runtime/nrt.h has it, and the data behind it.
_MEMORY: Final = """
declare ptr @malloc(i64)
declare void @free(ptr)

define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %wide = zext i32 %align to i64
  %with_head = add i64 %size, 48
  %room = add i64 %with_head, %wide
  %head = call ptr @malloc(i64 %room)
  %is_none = icmp eq ptr %head, null
  br i1 %is_none, label %end, label %made
made:
  %start = ptrtoint ptr %head to i64
  %after = add i64 %start, 47
  %beyond = add i64 %after, %wide
  %mask = sub i64 0, %wide
  %place = and i64 %beyond, %mask
  store i64 1, ptr %head
  %destructor = getelementptr i8, ptr %head, i64 8
  store i64 0, ptr %destructor
  %told = getelementptr i8, ptr %head, i64 16
  store i64 0, ptr %told
  %data = getelementptr i8, ptr %head, i64 24
  store i64 %place, ptr %data
  %length = getelementptr i8, ptr %head, i64 32
  store i64 %size, ptr %length
  %allocator = getelementptr i8, ptr %head, i64 40
  store i64 0, ptr %allocator
  br label %end
end:
  ret ptr %head
}

define void @NRT_MemInfo_call_dtor(ptr %head) {
  call void @free(ptr %head)
  ret void
}
"""


def object_file(job: Job) -> bytes:
    """Ends the process if the sources are not those that whoever asks has loaded."""
    function = getattr(import_module(job.module), job.name)
    entry = _framed(function, Form.of_text(job.form)) if job.form else function
    made: Any = numba.njit(types.int64(types.int64), **_OPTIONS)(entry)
    (signature,) = made.signatures
    inner = made.overloads[signature].fndesc.llvm_func_name
    parsed: Any = llvm.parse_assembly(made.inspect_llvm(signature))
    parsed.link_in(llvm.parse_assembly(_ENTRY.format(inner=inner, name=job.name)))
    if job.form:
        parsed.link_in(llvm.parse_assembly(_MEMORY))
    parsed.verify()
    _check_calls(parsed, job)
    code: bytes = target_machine().emit_object(parsed)
    if MachineCode(job.module, job.name, job.sources, job.form).file_name != job.file_name:
        sys.exit(f"{job.module} has changed since the process that asks for it was started: start that again")
    return code


def _check_calls(parsed: Any, job: Job) -> None:
    """Nothing of numba's own is there when the code runs, as sets and texts would need it."""
    library = ctypes.CDLL(None)
    called = [each.name for each in parsed.functions if each.is_declaration and not each.name.startswith("llvm.")]
    missing = [name for name in called if not hasattr(library, name)]
    if missing:
        sys.exit(f"{job.name} of {job.module} calls what is there only with numba: {', '.join(missing)}")


def _framed(kernel: Any, form: Form) -> Callable[[int], int]:
    """A function that takes the words, looks at the arrays, and calls the kernel with all that they say."""
    given: dict[str, Any] = {
        "byte": _byte,
        "four": _four,
        "word": _word,
        "real": _real,
        "place": _place,
        "put": _put,
        "carray": carray,
        "kernel": numba_form(kernel.py_func),
    }
    checks, taken, names = [], [], []
    for number, argument in enumerate(form.arguments):
        at = (layout.FIRST + number) * layout.WORD_BYTES
        names.append(f"v{number}")
        if argument.ndim is None:
            taken.append(f"v{number} = {_plain(argument.kind, at)}")
            continue
        given[f"t{number}"] = np.dtype(argument.kind)
        checks += _checks(number, argument, at)
        shape = "".join(f"word(word(o{number}, {layout.SHAPE_AT}), {8 * axis}), " for axis in range(argument.ndim))
        taken.append(f"v{number} = carray(place(word(o{number}, {layout.DATA_AT})), ({shape}), t{number})")
    call = f"kernel({', '.join(names)})"
    to = f"word(words, {layout.RESULTS * layout.WORD_BYTES})"
    match form.results:
        case 0:
            last = [call]
        case 1:
            last = [f"put({to}, 0, {call})"]
        case several:
            last = [f"r = {call}", *(f"put({to}, {8 * index}, r[{index}])" for index in range(several))]
    body = "\n    ".join([*checks, *taken, *last, "return 0"])
    exec(f"def entry(words):\n    {body}\n", given)  # noqa: S102 - of numbers and of names that stand here
    return given["entry"]


def _plain(kind: str, at: int) -> str:
    match kind:
        case "d":
            return f"real(words, {at})"
        case "?":
            return f"word(words, {at}) != 0"
        case _:
            return f"word(words, {at})"


def _checks(number: int, argument: Argument, at: int) -> list[str]:
    """That an argument is an array as it should be."""
    array, dtype = f"o{number}", f"d{number}"
    is_wrong = (
        f"word({array}, {layout.TYPE_AT}) != word(words, {layout.ARRAY_TYPE * layout.WORD_BYTES})",
        f"four({array}, {layout.NDIM_AT}) != {argument.ndim}",
        f"four({array}, {layout.FLAGS_AT}) & {layout.WANTED_FLAGS} != {layout.WANTED_FLAGS}",
        f"four({dtype}, {layout.NUMBER_AT}) != {np.dtype(argument.kind).num}",
        f"byte({dtype}, {layout.ORDER_AT}) == {layout.FOREIGN}",
    )
    first, *rest = (f"if {wrong}: return {number + 1}" for wrong in is_wrong)
    return [f"{array} = word(words, {at})", first, f"{dtype} = word({array}, {layout.DTYPE_AT})", *rest]


@cache
def numba_form(function: FunctionType) -> Any:
    """A function as numba has it, and the parts that it calls with it: for types, and never for single values, for
    which numba would compile them anew."""
    names = _names_for_numba(function.__globals__)
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    made: Any = numba.njit(**_OPTIONS)(copy)
    call_template = made.get_call_template

    def of_types(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return call_template(tuple(types.unliteral(each) for each in arguments), named)

    made.get_call_template = of_types
    return made


def _names_for_numba(names: dict[str, Any]) -> dict[str, Any]:
    """Those of a module, with parts as numba has them. They may call each other: what is asked for meanwhile gets the
    names that are filled just now."""
    if id(names) not in _NAMES:
        copy = _NAMES[id(names)] = dict(names)
        copy.update({name: numba_form(value) for name, value in names.items() if is_part(value)})
    return _NAMES[id(names)]


def _reader(name: str, kind: Any, result: Any) -> Any:
    """A function that reads what is at a distance from an address."""

    @intrinsic
    def read(context, address, distance):
        def emit(_, builder, __, arguments):
            return builder.load(builder.inttoptr(builder.add(*arguments), kind.as_pointer()))

        return result(types.int64, types.int64), emit

    read.__name__ = name
    return read


_byte = _reader("byte", ir.IntType(8), types.uint8)
_four = _reader("four", ir.IntType(32), types.int32)
_word = _reader("word", ir.IntType(64), types.int64)
_real = _reader("real", ir.DoubleType(), types.float64)


@intrinsic
def _place(context, address):
    """An address, as `carray` takes it."""

    def emit(_, builder, __, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), emit


@intrinsic
def _put(context, address, distance, value):
    def emit(target, builder, __, arguments):
        at = builder.inttoptr(builder.add(arguments[0], arguments[1]), ir.IntType(64).as_pointer())
        builder.store(arguments[2], at)
        return target.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit
