"""The disk budget: what it refuses, what it evicts and in which order, and that it counts right."""

import copy
import pickle
from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode
from quarterdeck.stores.disk import DiskBudget, DiskFullError, DiskLimits, Owner
from tests.stores.budgets import (
    PLENTY,
    Evictions,
    add_artifacts,
    add_cached,
    on_disk,
    path_of,
    small_budget,
)

MIB = 1024 * 1024


# Refusing


def test_what_does_not_fit_is_refused_with_what_was_wanted_what_there_is_and_what_to_do(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000)
    add_artifacts(budget, "a", size_bytes=900)
    file = budget.create(Owner.ARTIFACTS, "b", path_of(budget, "b"))
    with budget.pinned("a"), pytest.raises(DiskFullError) as refusal:
        file.write(bytes(2048))
    error = refusal.value
    assert error.code is ErrorCode.RESOURCE_EXHAUSTED
    assert error.retryable
    assert "2.0 KiB more of artifact b" in error.what
    assert "of 1000 B" in error.why
    assert "artifacts use 900 B" in error.why
    assert "raise the disk limit" in error.next_step
    assert on_disk(budget) == {"a"}
    budget.check_invariants()


def test_a_refusal_evicts_nothing_in_vain(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000)
    evictions = Evictions(budget)
    add_cached(budget, "a", "b")
    add_artifacts(budget, "c")
    with pytest.raises(DiskFullError), budget.create(Owner.ARTIFACTS, "big", path_of(budget, "big")) as file:
        file.write(bytes(1001))
    assert evictions.keys == []
    assert on_disk(budget) == {"a", "b", "c"}


def test_a_refused_file_says_so_again_and_cannot_be_kept(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 10)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    with pytest.raises(DiskFullError):
        file.write(bytes(11))
    with pytest.raises(DiskFullError):
        file.write(b"x")
    with pytest.raises(DiskFullError):
        file.keep()
    assert file.closed
    assert on_disk(budget) == set()


def test_a_disk_full_error_survives_copy_and_pickle(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 10)
    with pytest.raises(DiskFullError) as refusal, budget.create(Owner.CACHE, "a", path_of(budget, "a")) as file:
        file.write(bytes(11))
    for twin in (copy.copy(refusal.value), pickle.loads(pickle.dumps(refusal.value))):
        assert isinstance(twin, DiskFullError)
        assert str(twin) == str(refusal.value)


def test_what_is_expected_is_reserved_before_a_byte_is_written(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000)
    with budget.create(Owner.CACHE, "a", path_of(budget, "a"), expected_bytes=600):
        assert budget.figures().cache_bytes == 600
        with pytest.raises(DiskFullError):
            budget.create(Owner.CACHE, "b", path_of(budget, "b"), expected_bytes=600)
        assert on_disk(budget) == {"a.parquet.part"}
        budget.check_invariants()
    assert budget.figures().cache_bytes == 0


# The order of eviction


def test_eviction_takes_cached_then_acknowledged_then_expired_then_oldest_wanted(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1050)
    evictions = Evictions(budget)
    add_artifacts(budget, "wanted-1", "expired-1", "acknowledged-1", "wanted-2", "acknowledged-2", "expired-2")
    add_cached(budget, "cached-1", "cached-2")
    for key in ("expired-2", "expired-1"):
        budget.expire(key)
    for key in ("acknowledged-1", "acknowledged-2"):
        budget.acknowledge(key)
    add_artifacts(budget, "new-1", "new-2")
    assert budget.figures().artifact_bytes + budget.figures().cache_bytes == 1000
    order = [
        *("cached-1", "cached-2", "acknowledged-1", "acknowledged-2"),
        *("expired-2", "expired-1", "wanted-1", "wanted-2"),
    ]
    for number, key in enumerate(order):
        add_artifacts(budget, f"next-{number}")
        assert evictions.keys[-1] == key
    assert evictions.keys == order


def test_the_least_recently_used_cached_file_goes_first(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 450)
    evictions = Evictions(budget)
    add_cached(budget, "a", "b", "c", "d")
    budget.touch("a")
    with budget.pinned("b"):
        pass
    add_cached(budget, "e", "f", "g")
    assert evictions.keys == ["c", "d", "a"]


def test_an_expired_artifact_that_is_acknowledged_goes_before_other_expired_ones_and_not_back(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 300)
    evictions = Evictions(budget)
    add_artifacts(budget, "a", "b", "c")
    for key in ("a", "b", "c"):
        budget.expire(key)
    budget.acknowledge("c")
    budget.expire("c")
    add_artifacts(budget, "d", "e")
    assert evictions.keys == ["c", "a"]


def test_above_the_high_watermark_room_is_made_down_to_the_low_one(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000, high=0.9, low=0.5)
    evictions = Evictions(budget)
    keys = [f"c{number}" for number in range(9)]
    add_cached(budget, *keys)
    assert evictions.keys == []
    add_cached(budget, "one-more", size_bytes=1)
    assert evictions.keys == keys[:5]
    assert budget.figures().cache_bytes == 401


def test_one_file_does_not_wait_for_the_low_watermark_when_nothing_more_can_go(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000, high=0.9, low=0.5)
    add_artifacts(budget, "a", size_bytes=900)
    with budget.pinned("a"):
        add_artifacts(budget, "b", size_bytes=100)
        budget.check_invariants()
        assert on_disk(budget) == {"a", "b"}


def test_more_files_than_are_picked_at_once_are_all_evicted(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000)
    evictions = Evictions(budget)
    keys = [f"c{number}" for number in range(500)]
    add_cached(budget, *keys, size_bytes=2)
    add_artifacts(budget, "big", size_bytes=1000)
    assert evictions.keys == keys
    assert on_disk(budget) == {"big"}
    budget.check_invariants()


def test_what_is_pinned_or_growing_is_passed_over(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 450)
    evictions = Evictions(budget)
    add_cached(budget, "pinned", "free")
    with budget.pinned("pinned"), budget.create(Owner.CACHE, "growing", path_of(budget, "growing")) as growing:
        growing.write(bytes(100))
        add_artifacts(budget, "a", size_bytes=200)
        assert evictions.keys == ["free"]
        with pytest.raises(DiskFullError), budget.create(Owner.CACHE, "b", path_of(budget, "b")) as file:
            file.write(bytes(100))
        growing.keep()
    assert evictions.keys == ["free"]
    add_artifacts(budget, "c")
    assert evictions.keys == ["free", "growing"]  # "pinned" was let go later, so it was used later


def test_a_listener_that_fails_does_not_keep_the_others_from_being_told(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 300)
    told: list[str] = []

    def fail_on_a(owner: Owner, key: str) -> None:
        told.append(key)
        if key == "a":
            raise RuntimeError("broken")

    budget.on_evicted = fail_on_a
    add_cached(budget, "a", "b", "c")
    with budget.create(Owner.ARTIFACTS, "d", path_of(budget, "d")) as file, pytest.raises(RuntimeError, match="broken"):
        file.write(bytes(300))
    assert told == ["a", "b", "c"]
    budget.check_invariants()
    assert budget.figures().artifact_bytes == 0


# The artifact floor


def test_the_cache_never_uses_the_artifact_floor(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000, floor_bytes=700)
    evictions = Evictions(budget)
    add_cached(budget, "a", "b", "c", "d")
    assert evictions.keys == ["a"]
    assert budget.figures().cache_bytes == 300
    with pytest.raises(DiskFullError), budget.create(Owner.CACHE, "e", path_of(budget, "e")) as file:
        file.write(bytes(301))
    add_artifacts(budget, "x", size_bytes=700)
    assert on_disk(budget) == {"b", "c", "d", "x"}


def test_the_cache_yields_to_artifacts_beyond_the_floor(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000, floor_bytes=100)
    evictions = Evictions(budget)
    add_cached(budget, "a", "b", size_bytes=400)
    add_artifacts(budget, "x", size_bytes=1000)
    assert evictions.keys == ["a", "b"]


def test_the_cache_takes_the_place_of_acknowledged_and_expired_artifacts_but_of_no_wanted_one(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 300)
    evictions = Evictions(budget)
    add_artifacts(budget, "wanted", "acknowledged", "expired")
    budget.acknowledge("acknowledged")
    budget.expire("expired")
    add_cached(budget, "a", size_bytes=200)
    assert evictions.keys == ["acknowledged", "expired"]
    with pytest.raises(DiskFullError), budget.create(Owner.CACHE, "b", path_of(budget, "b")) as file:
        file.write(bytes(300))
    assert on_disk(budget) == {"wanted", "a"}


# The file system's own free space


def test_what_is_to_stay_free_on_the_file_system_stays_free(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000, keep_free_bytes=5000, free_bytes=5100)
    file = budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    with pytest.raises(DiskFullError, match=r"to stay free: 4\.9 KiB"):
        file.write(bytes(101))
    add_artifacts(budget, "b", size_bytes=100)


def test_what_is_reserved_and_not_yet_written_is_not_free_for_others(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 1000, free_bytes=150)
    with budget.create(Owner.CACHE, "a", path_of(budget, "a"), expected_bytes=100):
        with pytest.raises(DiskFullError):
            budget.create(Owner.CACHE, "b", path_of(budget, "b"), expected_bytes=51)
        budget.create(Owner.CACHE, "c", path_of(budget, "c"), expected_bytes=50).abandon()


def test_files_are_evicted_when_somebody_else_fills_the_file_system(tmp_path: Path) -> None:
    taken_by_others = 0

    def free_bytes() -> int:
        return 1000 - taken_by_others - sum(path.stat().st_size for path in tmp_path.iterdir())

    limits = DiskLimits(1000, high_watermark=1.0, low_watermark=0.99, step_bytes=1, keep_free_bytes=100)
    budget = DiskBudget(tmp_path, limits, free_bytes=free_bytes)
    evictions = Evictions(budget)
    add_cached(budget, "a", "b", "c")
    taken_by_others = 550
    add_artifacts(budget, "d")
    assert evictions.keys == ["a"]
    assert free_bytes() >= 100


# Entries


def test_a_file_is_reserved_in_steps_and_counts_only_what_it_is_when_kept(tmp_path: Path) -> None:
    budget = DiskBudget(tmp_path, DiskLimits(100 * MIB, step_bytes=MIB), free_bytes=lambda: PLENTY)
    with budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a")) as file:
        file.write(b"x")
        assert budget.figures().artifact_bytes == 64 * 1024
        file.write(bytes(64 * 1024))
        assert budget.figures().artifact_bytes == 128 * 1024
        file.write(bytes(5 * MIB))
        assert budget.figures().artifact_bytes == 5 * MIB + 64 * 1024 + 1
        file.write(b"x")
        assert budget.figures().artifact_bytes == 6 * MIB + 64 * 1024 + 1
        file.keep()
    assert budget.figures().artifact_bytes == 5 * MIB + 64 * 1024 + 2
    assert path_of(budget, "a").stat().st_size == 5 * MIB + 64 * 1024 + 2


def test_near_the_limit_only_what_is_needed_is_reserved(tmp_path: Path) -> None:
    budget = DiskBudget(tmp_path, DiskLimits(1000), free_bytes=lambda: PLENTY)
    add_artifacts(budget, "a", size_bytes=600)
    with budget.pinned("a"):
        add_artifacts(budget, "b", size_bytes=400)
    assert budget.figures().artifact_bytes == 1000


def test_a_removed_file_that_is_in_use_is_deleted_when_it_is_let_go_and_counts_until_then(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    add_artifacts(budget, "a")
    first, second = budget.pin("a"), budget.pin("a")
    budget.remove("a")
    with pytest.raises(KeyError), budget.pinned("a"):
        pass
    with pytest.raises(ValueError, match="let go"):
        budget.create(Owner.ARTIFACTS, "a", path_of(budget, "a"))
    first.release()
    first.release()
    assert path_of(budget, "a").exists()
    assert budget.figures().artifact_bytes == 100
    budget.check_invariants()
    second.release()
    assert not path_of(budget, "a").exists()
    assert budget.figures().artifact_bytes == 0
    add_artifacts(budget, "a")
    budget.check_invariants()


def test_what_is_not_there_may_be_removed_acknowledged_expired_and_touched(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    for forget in (budget.remove, budget.acknowledge, budget.expire, budget.touch):
        forget("nothing")
    add_artifacts(budget, "a")
    path_of(budget, "a").unlink()
    budget.remove("a")
    assert budget.figures().artifact_bytes == 0


def test_a_cached_file_is_not_acknowledged(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    add_cached(budget, "a")
    with pytest.raises(ValueError, match="no artifact"):
        budget.acknowledge("a")


def test_a_key_is_used_once_at_a_time(tmp_path: Path) -> None:
    budget = small_budget(tmp_path)
    with budget.create(Owner.CACHE, "a", path_of(budget, "a")) as file:
        with pytest.raises(ValueError, match="a is there already"):
            budget.create(Owner.CACHE, "a", path_of(budget, "a"))
        file.keep()
    with pytest.raises(ValueError, match="a is there already"):
        budget.create(Owner.CACHE, "a", path_of(budget, "a"))
    with pytest.raises(ValueError, match="a is there already"):
        budget.adopt(Owner.CACHE, "a", path_of(budget, "a"), 0.0)
    budget.check_invariants()


def test_adopted_files_are_evicted_by_when_they_were_last_used_whatever_the_order_of_adoption(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 450)
    evictions = Evictions(budget)
    for key, last_used in (("second", -20.0), ("third", -10.0), ("first", -30.0)):
        path_of(budget, key).write_bytes(bytes(100))
        budget.adopt(Owner.CACHE, key, path_of(budget, key), last_used)
    add_cached(budget, "new")
    for key in ("first", "second", "third", "new"):
        add_artifacts(budget, f"after-{key}")
        assert evictions.keys[-1] == key


def test_what_cannot_be_adopted_is_left_as_it_is(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 400)
    path_of(budget, "big").write_bytes(bytes(401))
    with pytest.raises(DiskFullError):
        budget.adopt(Owner.CACHE, "big", path_of(budget, "big"), 0.0)
    assert path_of(budget, "big").exists()
    assert budget.figures().cache_bytes == 0


def test_a_file_that_cannot_be_deleted_goes_on_being_counted(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, 400)
    add_cached(budget, "a")
    path_of(budget, "a").unlink()
    path_of(budget, "a").mkdir()  # not even root can unlink it
    budget.remove("a")
    with pytest.raises(KeyError):
        budget.pin("a")
    assert budget.figures().cache_bytes == 100


def test_figures_tell_what_is_used_and_what_is_free_on_the_file_system(tmp_path: Path) -> None:
    budget = small_budget(tmp_path, free_bytes=7777)
    add_cached(budget, "a", size_bytes=10)
    add_artifacts(budget, "b", "c", size_bytes=20)
    figures = budget.figures()
    assert (figures.limit_bytes, figures.cache_bytes, figures.artifact_bytes) == (1000, 10, 40)
    assert figures.free_bytes == 7777
    really_free = DiskBudget(tmp_path, DiskLimits(1)).figures().free_bytes
    assert really_free > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit_bytes": 0},
        {"high_watermark": 0.5},
        {"high_watermark": 1.1},
        {"low_watermark": 0.0},
        {"artifact_floor_bytes": 101},
        {"artifact_floor_bytes": -1},
        {"step_bytes": 0},
        {"keep_free_bytes": -1},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        DiskLimits(**{"limit_bytes": 100, **wrong})  # pyright: ignore[reportArgumentType] - int or float, by name
