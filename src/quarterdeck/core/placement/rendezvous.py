"""Rendezvous hashing (highest random weight): a key goes to the same worker as long as that worker is there.

A worker that joins takes about 1/n of the keys and no other key moves; a worker that leaves gives its own keys away and
no other key moves. That is what keeps caches warm. The answer depends on the ids and the key alone, not on the order of
joining, the process or the platform, so that coordinators agree without talking. The formula is therefore a contract;
changing it makes every cache cold:

    fold(d)        = d ^ (d >> 30)
    worker seed    = fold(xxh64(utf8(worker_id), seed=0))
    key seed       = fold(xxh64(utf8(key), seed=1))
    x              = (worker seed ^ key seed) * 0xBF58476D1CE4E5B9      mod 2**64
    weight         = (x ^ (x >> 27)) * 0x94D049BB133111EB               mod 2**64

The worker with the highest weight wins; of equal weights, the lowest worker id. This is the finalizer of splitmix64
with two savings: its first fold is linear, so it is taken once a worker and once a key instead of once a pair, and its
last fold is left out because it leaves the high bits, which decide, as they are. Keys have another xxh64 seed than
workers; with the same one, a key that is spelled like a worker id would give that worker the weight 0 every time.

Each step of the formula can be undone, so two workers have equal weights for one key only if they have equal seeds, and
then for all keys. Such workers share one slot. Hence the weights of different slots differ, and argmax has one answer.

A choice is a few passes over one array. A loop in plain Python was measured and left out: it is faster only below 8
workers, and by about a microsecond.

It must not know how much room a worker has: affinity does not move when a worker is busy.
"""

from bisect import insort
from collections.abc import Collection
from typing import Final

import numpy as np
import numpy.typing as npt
from xxhash import xxh64_intdigest

from quarterdeck.core.ids import WorkerId

_WORKER_HASH_SEED: Final = 0
_KEY_HASH_SEED: Final = 1
_FOLD_BITS: Final = 30
# Arrays without dimensions: numpy takes them faster than Python integers, which it would convert at every call.
_FIRST_FACTOR: Final = np.array(0xBF58476D1CE4E5B9, dtype=np.uint64)
_MIDDLE_BITS: Final = np.array(27, dtype=np.uint64)
_SECOND_FACTOR: Final = np.array(0x94D049BB133111EB, dtype=np.uint64)
_INITIAL_CAPACITY: Final = 16
# Looking for the next best costs about a microsecond; sorting out all excluded workers costs something for each one.
# With half of the crew excluded, eight tries fail once in 256 times.
_TRIES_FROM_THE_TOP: Final = 8


def _folded_digest(text: str, hash_seed: int) -> int:
    # surrogatepass: a path that is not valid Unicode still has one well-defined digest.
    digest = xxh64_intdigest(text.encode("utf-8", "surrogatepass"), hash_seed)
    return digest ^ (digest >> _FOLD_BITS)


class Rendezvous:
    """Picks the worker with the highest weight for the key. Ignores how much room the workers have.

    Slots are dense: the last one moves into the place of one that goes. Arrays double when full and never shrink.
    """

    def __init__(self) -> None:
        self._seed_of: dict[WorkerId, int] = {}
        self._slot_of: dict[int, int] = {}
        self._holders: list[list[WorkerId]] = []
        """By slot: the workers with that slot's seed, lowest id first. More than one only when digests collide."""
        self._key_seed: npt.NDArray[np.uint64] = np.zeros((), dtype=np.uint64)
        self._all_seeds: npt.NDArray[np.uint64] = np.empty(_INITIAL_CAPACITY, dtype=np.uint64)
        self._all_weights: npt.NDArray[np.uint64] = np.empty_like(self._all_seeds)
        self._all_shifted: npt.NDArray[np.uint64] = np.empty_like(self._all_seeds)
        self._resize_views()

    def add(self, worker_id: WorkerId, free: int) -> None:  # noqa: ARG002
        """Let the worker be chosen. `ValueError` when it already may be."""
        if worker_id in self._seed_of:
            raise ValueError(f"worker {worker_id!r} is already there: remove it before it is added again")
        seed = _folded_digest(worker_id, _WORKER_HASH_SEED)
        self._seed_of[worker_id] = seed
        if seed in self._slot_of:
            insort(self._holders[self._slot_of[seed]], worker_id)
        else:
            self._open_slot(seed, worker_id)

    def remove(self, worker_id: WorkerId) -> None:
        """Let the worker be chosen no longer. `KeyError` when it is not there."""
        seed = self._seed_of.pop(worker_id)
        slot = self._slot_of[seed]
        self._holders[slot].remove(worker_id)
        if not self._holders[slot]:
            self._close_slot(slot, seed)

    def set_free(self, worker_id: WorkerId, free: int) -> None:  # noqa: ARG002
        """Change nothing. `KeyError` when the worker is not there."""
        if worker_id not in self._seed_of:
            raise KeyError(worker_id)

    def choose(self, key: str, excluded: Collection[WorkerId] = ()) -> WorkerId | None:
        """Pick the first of `ranked(key)` that is not excluded; `None` when there is none."""
        if not self._holders:
            return None
        self._weigh(key)
        weights = self._weights
        for _ in range(_TRIES_FROM_THE_TOP):
            slot = int(weights.argmax())
            for worker_id in self._holders[slot]:
                if worker_id not in excluded:
                    return worker_id
            weights[slot] = 0
        return self._choose_from_the_rest(frozenset(excluded))

    def ranked(self, key: str) -> list[WorkerId]:
        """Return all workers, best first: who stands second takes over the key when the first one leaves."""
        self._weigh(key)
        best_first = np.argsort(self._weights)[::-1]
        return [worker_id for slot in best_first for worker_id in self._holders[int(slot)]]

    def __len__(self) -> int:
        return len(self._seed_of)

    def __contains__(self, worker_id: object) -> bool:
        return worker_id in self._seed_of

    def _weigh(self, key: str) -> None:
        """Compute the weight of every slot for the key, into the arrays kept for that."""
        weights, shifted = self._weights, self._shifted
        self._key_seed[()] = _folded_digest(key, _KEY_HASH_SEED)
        np.bitwise_xor(self._seeds, self._key_seed, weights)
        np.multiply(weights, _FIRST_FACTOR, weights)
        np.right_shift(weights, _MIDDLE_BITS, shifted)
        np.bitwise_xor(weights, shifted, weights)
        np.multiply(weights, _SECOND_FACTOR, weights)

    def _choose_from_the_rest(self, excluded: frozenset[WorkerId]) -> WorkerId | None:
        """Pick among the slots that have a worker that is not excluded; their weights are already computed."""
        is_open = np.ones(len(self._holders), dtype=np.bool_)
        for worker_id in excluded:
            if worker_id in self._seed_of:
                slot = self._slot_of[self._seed_of[worker_id]]
                is_open[slot] = not excluded.issuperset(self._holders[slot])
        open_slots = np.flatnonzero(is_open)
        if not open_slots.size:
            return None
        best = int(open_slots[self._weights[open_slots].argmax()])
        return next(worker_id for worker_id in self._holders[best] if worker_id not in excluded)

    def _open_slot(self, seed: int, worker_id: WorkerId) -> None:
        slot = len(self._holders)
        if slot == self._all_seeds.size:
            self._all_seeds = np.concatenate((self._all_seeds, np.empty_like(self._all_seeds)))
            self._all_weights = np.empty_like(self._all_seeds)
            self._all_shifted = np.empty_like(self._all_seeds)
        self._all_seeds[slot] = seed
        self._slot_of[seed] = slot
        self._holders.append([worker_id])
        self._resize_views()

    def _close_slot(self, slot: int, seed: int) -> None:
        last_seed = int(self._seeds[-1])
        self._all_seeds[slot] = last_seed
        self._holders[slot] = self._holders[-1]
        self._slot_of[last_seed] = slot
        # After the move, not before: the slot that closes may itself be the last one.
        del self._slot_of[seed]
        self._holders.pop()
        self._resize_views()

    def _resize_views(self) -> None:
        """Keep the used part of each array at hand, so that a choice does not have to slice."""
        used = slice(len(self._holders))
        self._seeds = self._all_seeds[used]
        self._weights = self._all_weights[used]
        self._shifted = self._all_shifted[used]
