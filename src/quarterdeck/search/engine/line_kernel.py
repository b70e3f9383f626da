"""The reading of NDJSON, compiled: is a line a JSON object, and where in it are the values of some keys.

It is imported to be compiled, and by nobody else; see `engines.machine_code`. All it works on are addresses: what it
is given is one array of integers, which `line_scanner` makes and `Call` names. A line of a few hundred bytes takes a
tenth of a microsecond: strings, most of the bytes, are looked through 32 at a time.

JSON is what RFC 8259 says, in UTF-8, without surrogates that stand alone. Lines are cut at line ends, lines of
nothing but white space are passed over, and so is a byte order mark before a record.
"""

# ruff: noqa: ARG001
# pyright: basic, reportMissingTypeStubs=false, reportCallIssue=false, reportGeneralTypeIssues=false

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from quarterdeck.search.engine.line_call import DEEPEST, Call, ValueKind

_WIDTH = 32
"""As many bytes are looked at together, and up to so many beyond the end are read."""
_OBJECT, _LIST = 1, 0
_KEY, _VALUE, _AFTER = 0, 1, 2
"""What comes next."""

_BASE, _END, _PLACE, _KEYS, _KEY_ENDS, _KEY_COUNT = (
    int(Call.BASE),
    int(Call.END),
    int(Call.PLACE),
    int(Call.KEYS),
    int(Call.KEY_ENDS),
    int(Call.KEY_COUNT),
)
_ROOM, _ROWS, _LINES, _BAD = int(Call.ROOM), int(Call.ROWS), int(Call.LINES), int(Call.BAD)
_VIEWS, _THERE, _KINDS, _STACK = int(Call.VIEWS), int(Call.THERE), int(Call.KINDS), int(Call.STACK)
_ABSENT, _NULL, _INTEGER, _BOOLEAN, _STRING, _REAL, _ESCAPED, _NESTED = (int(kind) for kind in ValueKind)


def _memory(name, bits, result):
    """A function that reads an integer at an address and a distance from it, and one that writes it."""
    kind = ir.IntType(bits)

    @intrinsic
    def load(context, address, distance):
        def emit(_, builder, __, arguments):
            place = builder.inttoptr(builder.add(*arguments), kind.as_pointer())
            return builder.load(place, align=1)

        return result(types.int64, types.int64), emit

    @intrinsic
    def store(context, address, distance, value):
        def emit(target, builder, __, arguments):
            place = builder.inttoptr(builder.add(arguments[0], arguments[1]), kind.as_pointer())
            builder.store(arguments[2], place, align=1)
            return target.get_dummy_value()

        return types.void(types.int64, types.int64, result), emit

    load.__name__, store.__name__ = f"load_{name}", f"store_{name}"
    return load, store


_byte, _store_byte = _memory("byte", 8, types.uint8)
_four, _store_four = _memory("four", 32, types.uint32)
_eight, _store_eight = _memory("eight", 64, types.uint64)
_number, _store_number = _memory("number", 64, types.int64)


@intrinsic
def _plain_bytes(context, address, distance):
    """How many of the next 32 bytes stand for themselves in a string: neither quotes nor backslashes, no control
    characters and nothing beyond ASCII."""

    def emit(_, builder, __, arguments):
        small = ir.IntType(8)
        vector = ir.VectorType(small, _WIDTH)
        loaded = builder.load(builder.inttoptr(builder.add(*arguments), vector.as_pointer()), align=1)

        def all_of(value):
            return ir.Constant(vector, [ir.Constant(small, value)] * _WIDTH)

        special = builder.or_(
            builder.icmp_unsigned("==", loaded, all_of(ord('"'))),
            builder.icmp_unsigned("==", loaded, all_of(ord("\\"))),
        )
        special = builder.or_(special, builder.icmp_signed("<", loaded, all_of(0x20)))  # from 0x80 on they are negative
        mask = builder.bitcast(special, ir.IntType(_WIDTH))
        count = builder.cttz(mask, ir.Constant(ir.IntType(1), 0))  # of 0 it is 32
        return builder.zext(count, ir.IntType(64))

    return types.int64(types.int64, types.int64), emit


_part = njit(nogil=True, error_model="numpy", inline="always")
_seldom = njit(nogil=True, error_model="numpy")


@_part
def _is_digit(byte):
    return 0x30 <= byte <= 0x39


@_part
def _after_space(base, place):
    while True:
        byte = _byte(base, place)
        if byte > 0x20 or byte not in (0x20, 0x09, 0x0D):
            return place
        place += 1


@_seldom
def _hex(base, place):
    """Four digits; -1 if they are none."""
    value = 0
    for step in range(4):
        byte = _byte(base, place + step)
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= byte <= 0x46:
            digit = byte - 0x37
        elif 0x61 <= byte <= 0x66:
            digit = byte - 0x57
        else:
            return -1
        value = value * 16 + digit
    return value


@_seldom
def _escape_length(base, place):
    """Of the escape that begins with a backslash here; -1 if it is none."""
    byte = _byte(base, place + 1)
    if byte in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):
        return 2
    if byte != 0x75:
        return -1
    first = _hex(base, place + 2)
    if first < 0 or 0xDC00 <= first < 0xE000:
        return -1
    if first < 0xD800 or first >= 0xE000:
        return 6
    if _byte(base, place + 6) != 0x5C or _byte(base, place + 7) != 0x75:
        return -1
    second = _hex(base, place + 8)
    return 12 if 0xDC00 <= second < 0xE000 else -1


@_seldom
def _character_length(base, place):
    """Of a character of several bytes in UTF-8; -1 if it is none."""
    first = _byte(base, place)
    second = _byte(base, place + 1)
    if first < 0xC2 or second & 0xC0 != 0x80:
        return -1
    if first < 0xE0:
        return 2
    if _byte(base, place + 2) & 0xC0 != 0x80:
        return -1
    if first < 0xF0:
        return -1 if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F) else 3
    if _byte(base, place + 3) & 0xC0 != 0x80 or first > 0xF4:
        return -1
    return -1 if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F) else 4


@_part
def _string_end(base, place):
    """The place after the closing quote of a string whose first character is here, and whether it has escapes. The
    place is -1 if it is no string."""
    has_escapes = False
    while True:
        plain = _plain_bytes(base, place)
        place += plain
        if plain == _WIDTH:
            continue
        byte = _byte(base, place)
        if byte == 0x22:
            return place + 1, has_escapes
        if byte == 0x5C:
            has_escapes = True
            length = _escape_length(base, place)
        elif byte < 0x20:
            length = -1
        else:
            length = _character_length(base, place)
        if length < 0:
            return -1, has_escapes
        place += length


@_part
def _digits_end(base, place):
    """The place after the digits that begin here; -1 if there are none."""
    begin = place
    while _is_digit(_byte(base, place)):
        place += 1
    return place if place > begin else -1


@_part
def _number_end(base, place):
    """The place after a number that begins here, and its kind. The place is -1 if it is no number."""
    kind = _INTEGER
    is_negative = _byte(base, place) == 0x2D
    if is_negative:
        place += 1
    if _byte(base, place) == 0x30:
        place += 1
        if is_negative:
            kind = _REAL  # of -0 there is a shorter form
    else:
        place = _digits_end(base, place)
    if place >= 0 and _byte(base, place) == 0x2E:
        kind = _REAL
        place = _digits_end(base, place + 1)
    if place >= 0 and _byte(base, place) in (0x45, 0x65):
        kind = _REAL
        place += 1
        if _byte(base, place) in (0x2B, 0x2D):
            place += 1
        place = _digits_end(base, place)
    return place, kind


@_seldom
def _word_end(base, place):
    """The place after `true`, `false` or `null`, and its kind. The place is -1 if it is none."""
    word = _four(base, place)
    if word == 0x65757274:
        return place + 4, _BOOLEAN
    if word == 0x6C6C756E:
        return place + 4, _NULL
    if word == 0x736C6166 and _byte(base, place + 4) == 0x65:
        return place + 5, _BOOLEAN
    return -1, _ABSENT


@_part
def _plain_end(base, place, byte):
    """The place after a value that is neither an object nor a list and begins with this byte, and its kind. The place
    is -1 if it is none."""
    if byte == 0x22:
        place, has_escapes = _string_end(base, place + 1)
        return place, _ESCAPED if has_escapes else _STRING
    if _is_digit(byte) or byte == 0x2D:
        return _number_end(base, place)
    return _word_end(base, place)


@_part
def _is_key(base, place, keys, start, length):
    step = 0
    while step < length:
        difference = _eight(base, place + step) ^ _eight(keys, start + step)
        if length - step < 8:
            difference &= (types.uint64(1) << types.uint64(8 * (length - step))) - types.uint64(1)
        if difference != 0:
            return False
        step += 8
    return True


@_seldom
def _is_escaped_key(base, place, end, keys, start, length):
    """The same of a key that has escapes, which are known to be right."""
    step = 0
    while place < end:
        byte = _byte(base, place)
        if byte != 0x5C:
            if step >= length or byte != _byte(keys, start + step):
                return False
            place += 1
            step += 1
            continue
        byte = _byte(base, place + 1)
        if byte == 0x75:
            point = _hex(base, place + 2)
            place += 6
            if 0xD800 <= point < 0xDC00:
                point = 0x10000 + ((point - 0xD800) << 10) + _hex(base, place + 2) - 0xDC00
                place += 6
        else:
            place += 2
            point = int(byte)
            if byte == 0x62:
                point = 0x08
            elif byte == 0x66:
                point = 0x0C
            elif byte == 0x6E:
                point = 0x0A
            elif byte == 0x72:
                point = 0x0D
            elif byte == 0x74:
                point = 0x09
        count = 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4
        if step + count > length:
            return False
        for number in range(count):
            shift = 6 * (count - 1 - number)
            if count == 1:
                wanted = point
            elif number == 0:
                wanted = ((0xF00 >> count) & 0xFF) | (point >> shift)
            else:
                wanted = 0x80 | ((point >> shift) & 0x3F)
            if wanted != _byte(keys, start + step + number):
                return False
        step += count
    return step == length


@_part
def _show(views, row, base, place, length):
    """Writes where a text is, as Arrow does: a length, and up to twelve bytes themselves or the first four, the number
    of a buffer and the place within it."""
    view = row * 16
    _store_four(views, view, types.uint32(length))
    low = _eight(base, place)
    if length > 12:
        _store_four(views, view + 4, types.uint32(low))
        _store_four(views, view + 8, types.uint32(0))
        _store_four(views, view + 12, types.uint32(place))
        return
    high = _four(base, place + 8)
    if length < 8:
        low &= (types.uint64(1) << types.uint64(8 * length)) - types.uint64(1)
        high = types.uint32(0)
    else:
        high &= types.uint32((types.uint64(1) << types.uint64(8 * (length - 8))) - types.uint64(1))
    _store_eight(views, view + 4, low)
    _store_four(views, view + 12, high)


@_part
def _set(bits, row):
    _store_byte(bits, row >> 3, _byte(bits, row >> 3) | types.uint8(1 << (row & 7)))


@_seldom
def _nested_end(base, place, stack):
    """The place after the object or list that begins here; -1 if it is none."""
    depth = 0
    wanted = _VALUE
    may_end = False
    while True:
        place = _after_space(base, place)
        byte = _byte(base, place)
        if wanted == _AFTER:
            is_object = _byte(stack, depth) == _OBJECT
            if byte == 0x2C:
                place += 1
                wanted = _KEY if is_object else _VALUE
                may_end = False
                continue
            if byte != (0x7D if is_object else 0x5D):
                return -1
        elif wanted == _KEY:
            if byte == 0x22:
                place, _ = _string_end(base, place + 1)
                if place < 0:
                    return -1
                place = _after_space(base, place)
                if _byte(base, place) != 0x3A:
                    return -1
                place += 1
                wanted = _VALUE
                may_end = False
                continue
            if byte != 0x7D or not may_end:
                return -1
        elif byte in (0x7B, 0x5B):
            depth += 1
            if depth >= DEEPEST:
                return -1
            _store_byte(stack, depth, types.uint8(_OBJECT if byte == 0x7B else _LIST))
            place += 1
            wanted = _KEY if byte == 0x7B else _VALUE
            may_end = True
            continue
        elif byte != 0x5D or not may_end:
            place, _ = _plain_end(base, place, byte)
            if place < 0:
                return -1
            wanted = _AFTER
            continue
        place += 1
        depth -= 1
        if depth == 0:
            return place
        wanted = _AFTER


def scan_lines(call):
    """Reads lines from `PLACE` on until `END`, or until there is no more `ROOM`. Writes `PLACE`, `ROWS`
    and `BAD`.

    There must be a line end at `END`, and more bytes after that and after the keys; bits and kinds must be 0."""
    base, end, place = _number(call, 8 * _BASE), _number(call, 8 * _END), _number(call, 8 * _PLACE)
    keys, key_ends, key_count = _number(call, 8 * _KEYS), _number(call, 8 * _KEY_ENDS), _number(call, 8 * _KEY_COUNT)
    room, lines = _number(call, 8 * _ROOM), _number(call, 8 * _LINES)
    views, there, kinds = _number(call, 8 * _VIEWS), _number(call, 8 * _THERE), _number(call, 8 * _KINDS)
    stack = _number(call, 8 * _STACK)
    row = 0
    bad = 0
    while place < end and row < room:
        place = _after_space(base, place)
        if _four(base, place) & types.uint32(0xFFFFFF) == 0xBFBBEF:  # a byte order mark
            place = _after_space(base, place + 3)
        byte = _byte(base, place)
        if byte == 0x0A:
            place += 1
            continue
        begin = place
        is_json = byte == 0x7B
        if is_json:
            place = _after_space(base, place + 1)
            byte = _byte(base, place)
            if byte == 0x7D:
                place += 1
        while is_json and byte != 0x7D:
            if byte != 0x22:
                is_json = False
                break
            begin_key = place + 1
            place, has_escapes = _string_end(base, begin_key)
            if place < 0:
                is_json = False
                break
            end_key = place - 1
            slot = -1
            start = 0
            for key in range(key_count):
                stop = _number(key_ends, 8 * key)
                if has_escapes:
                    is_it = _is_escaped_key(base, begin_key, end_key, keys, start, stop - start)
                else:
                    is_it = stop - start == end_key - begin_key and _is_key(base, begin_key, keys, start, stop - start)
                if is_it:
                    if _byte(kinds, key * room + row) == _ABSENT:  # of several the first counts
                        slot = key
                    break
                start = stop
            place = _after_space(base, place)
            if _byte(base, place) != 0x3A:
                is_json = False
                break
            place = _after_space(base, place + 1)
            value = place
            byte = _byte(base, place)
            if byte in (0x7B, 0x5B):
                place, kind = _nested_end(base, place, stack), _NESTED
            else:
                place, kind = _plain_end(base, place, byte)
            if place < 0:
                is_json = False
                break
            if slot >= 0:
                _store_byte(kinds, slot * room + row, types.uint8(kind))
                if kind != _NULL:
                    _set(there + slot * (room >> 3), row)
                    _show(views + slot * room * 16, row, base, value, place - value)
            place = _after_space(base, place)
            byte = _byte(base, place)
            place += 1
            if byte == 0x2C:
                place = _after_space(base, place)
                byte = _byte(base, place)
                if byte != 0x22:
                    is_json = False
            elif byte != 0x7D:
                is_json = False
        stop = place
        if is_json:
            place = _after_space(base, place)
            is_json = _byte(base, place) == 0x0A
        if is_json:
            _show(lines, row, base, begin, stop - begin)
            row += 1
        else:
            bad += 1
            for key in range(key_count):
                _store_byte(kinds, key * room + row, types.uint8(_ABSENT))
                bits = there + key * (room >> 3)
                _store_byte(bits, row >> 3, _byte(bits, row >> 3) & types.uint8(~(1 << (row & 7)) & 0xFF))
            place = begin
            while _byte(base, place) != 0x0A:
                place += 1
        place += 1
    _store_number(call, 8 * _PLACE, place)
    _store_number(call, 8 * _ROWS, row)
    _store_number(call, 8 * _BAD, bad)
    return row
