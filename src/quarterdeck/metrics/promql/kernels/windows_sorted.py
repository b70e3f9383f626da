"""The numbers of a window, sorted, from one window to the next.

Each sample that leaves makes room for one that comes; windows with little in common are sorted anew. A sample costs
time that grows with the window: for windows of some tens of samples there is nothing faster. NaN is not kept.
"""

from typing import Final

from quarterdeck.metrics.promql.blocks import F64
from quarterdeck.metrics.promql.kernels.compile import part_of_kernel

_RUN: Final = 16
"""So many numbers are sorted by insertion; sorted runs are merged."""


@part_of_kernel
def place_of(numbers: F64, size: int, number: float) -> int:
    """The first place whose number is not lower, or `size`."""
    first = 0
    while size > 0:
        half = size // 2
        is_lower = numbers[first + half] < number
        first = first + half + 1 if is_lower else first
        size = size - half - 1 if is_lower else half
    return first


@part_of_kernel
def replace(numbers: F64, size: int, old: float, new: float) -> None:
    """Take one number out and put another in. Only what lies between their places moves."""
    at = place_of(numbers, size, old)
    if new > old:
        while at + 1 < size and numbers[at + 1] < new:
            numbers[at] = numbers[at + 1]
            at += 1
    else:
        while at > 0 and numbers[at - 1] > new:
            numbers[at] = numbers[at - 1]
            at -= 1
    numbers[at] = new


@part_of_kernel
def insert(numbers: F64, size: int, new: float) -> None:
    """Put a number in; there are `size` before."""
    at = place_of(numbers, size, new)
    for place in range(size, at, -1):
        numbers[place] = numbers[place - 1]
    numbers[at] = new


@part_of_kernel
def remove(numbers: F64, size: int, old: float) -> None:
    """Take a number out; there are `size` before."""
    for place in range(place_of(numbers, size, old), size - 1):
        numbers[place] = numbers[place + 1]


@part_of_kernel
def sort(numbers: F64, size: int, spare: F64) -> None:
    """Sort the first `size` numbers, none of which is NaN."""
    for begin in range(0, size, _RUN):
        for at in range(begin + 1, min(begin + _RUN, size)):
            number = numbers[at]
            place = at
            while place > begin and numbers[place - 1] > number:
                numbers[place] = numbers[place - 1]
                place -= 1
            numbers[place] = number
    width = _RUN
    while width < size:
        for begin in range(0, size - width, 2 * width):
            middle = begin + width
            end = min(middle + width, size)
            for at in range(begin, middle):
                spare[at] = numbers[at]
            left = begin
            right = middle
            for place in range(begin, end):
                if left >= middle:
                    break
                if right < end and numbers[right] < spare[left]:
                    numbers[place] = numbers[right]
                    right += 1
                else:
                    numbers[place] = spare[left]
                    left += 1
        width *= 2


@part_of_kernel
def fill(values: F64, first: int, past: int, numbers: F64, spare: F64) -> int:
    """Sort a window anew; how many of its samples are numbers."""
    size = 0
    for at in range(first, past):
        if values[at] == values[at]:
            numbers[size] = values[at]
            size += 1
    sort(numbers, size, spare)
    return size


@part_of_kernel
def move(values: F64, old: int, past_old: int, new: int, past_new: int, numbers: F64, size: int) -> int:
    """Take out the samples from `old` on and put in those from `new` on; how many numbers there are then."""
    while old < past_old or new < past_new:
        # A NaN is not among the numbers.
        if old < past_old and values[old] != values[old]:
            old += 1
        elif new < past_new and values[new] != values[new]:
            new += 1
        elif old == past_old:
            insert(numbers, size, values[new])
            size += 1
            new += 1
        elif new == past_new:
            remove(numbers, size, values[old])
            size -= 1
            old += 1
        else:
            replace(numbers, size, values[old], values[new])
            old += 1
            new += 1
    return size
