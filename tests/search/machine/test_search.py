"""The machine of one search: who searches which chunk, and what happens when somebody is lost."""

from collections.abc import Sequence

import pytest

from quarterdeck.recruiter.model import Recruited
from quarterdeck.search.machine.search import SearchConfig, SearchMachine
from quarterdeck.search.machine.search_effects import (
    AssignChunk,
    CommitChunk,
    Effect,
    Finish,
    GiveUp,
    HangUp,
    Recruit,
    ReleaseWorker,
    SearchAlone,
)
from quarterdeck.search.machine.search_events import (
    ChunkFinished,
    ChunkGathered,
    ChunkRefused,
    Event,
    SearchCanceled,
    SearchSatisfied,
    Started,
    TimePassed,
    WorkerLost,
    WorkersRecruited,
)
from quarterdeck.search.machine.search_records import ROOT, Seat
from quarterdeck.search.model import Chunk, FileKind, Piece

ONE, TWO, THREE = Seat(1), Seat(2), Seat(3)


def chunk(number: int, size_bytes: int = 10) -> Chunk:
    return Chunk(number, (Piece(f"/logs/{number}", FileKind.NDJSON, size_bytes, "v", 0, size_bytes),))


def worker(number: int, slots: int = 1) -> Recruited:
    return Recruited(f"host-{number}:1", f"node-{number}", slots, f"r{number}")


def recruited(*workers: Recruited) -> WorkersRecruited:
    return WorkersRecruited(workers)


class Played:
    """A machine at a time that the test sets, checked after every step."""

    def __init__(self, chunks: int | Sequence[int] = 4, **config: int | float) -> None:
        sizes = [10] * chunks if isinstance(chunks, int) else chunks
        options: dict[str, int | float] = {"max_workers": 4, "idle_s": 4.0} | config
        self.machine = SearchMachine(
            SearchConfig(**options),  # pyright: ignore[reportArgumentType] - each is of its type
            [chunk(number, size) for number, size in enumerate(sizes)],
        )
        self.now = 100.0
        self.started = self.tell(Started())

    def tell(self, *events: Event) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            effects += self.machine.step(event, self.now)
            self.machine.check_invariants()
        return effects

    def pass_time(self) -> list[Effect]:
        """To the next deadline."""
        at = self.machine.next_deadline()
        assert at is not None
        self.now = max(self.now, at)
        return self.tell(TimePassed())

    def finish(self, seat: Seat, number: int) -> list[Effect]:
        """Finished, and gathered at once."""
        effects = self.tell(ChunkFinished(seat, number, 1))
        assert CommitChunk(number) in effects
        return [effect for effect in effects if effect != CommitChunk(number)] + self.tell(ChunkGathered(number))


def assigned(effects: Sequence[Effect]) -> list[tuple[Seat, int]]:
    return [(effect.seat, effect.chunk) for effect in effects if isinstance(effect, AssignChunk)]


# Handing out


def test_a_search_asks_for_as_many_workers_as_it_can_use() -> None:
    assert Played(chunks=3, max_workers=16).started == [Recruit(3)]
    assert Played(chunks=30, max_workers=16).started == [Recruit(16)]


def test_a_search_of_nothing_has_ended_at_once() -> None:
    assert Played(chunks=0).started == [Finish()]


def test_each_worker_gets_as_many_chunks_as_it_has_slots_and_the_least_busy_one_first() -> None:
    played = Played(chunks=5, max_workers=2)
    effects = played.tell(recruited(worker(1, slots=2), worker(2)))
    assert assigned(effects) == [(ONE, 0), (TWO, 1), (ONE, 2)]


def test_while_many_chunks_are_left_a_worker_has_one_ahead_of_its_turn() -> None:
    played = Played(chunks=8, max_workers=2, ahead=1)
    effects = played.tell(recruited(worker(1), worker(2)))
    assert assigned(effects) == [(ONE, 0), (TWO, 1), (ONE, 2), (TWO, 3)]
    assert assigned(played.tell(ChunkFinished(ONE, 0, 5))) == []  # four are left for two: whoever is free takes them
    assert assigned(played.tell(ChunkFinished(ONE, 2, 5))) == [(ONE, 4)]


def test_whoever_is_done_gets_the_next_chunk() -> None:
    played = Played(chunks=3, max_workers=2)
    played.tell(recruited(worker(1), worker(2)))
    assert played.tell(ChunkFinished(TWO, 1, 5)) == [CommitChunk(1), AssignChunk(TWO, worker(2), 2)]


def test_a_worker_goes_home_as_soon_as_nothing_is_left_for_it_and_the_search_ends_with_the_last_chunk() -> None:
    played = Played(chunks=2)
    played.tell(recruited(worker(1), worker(2), worker(3)))
    assert played.machine.released == 1
    assert played.tell(ChunkFinished(ONE, 0, 5)) == [CommitChunk(0), ReleaseWorker(worker(1))]
    assert played.tell(ChunkFinished(TWO, 1, 5), ChunkGathered(0)) == [CommitChunk(1), ReleaseWorker(worker(2))]
    assert played.tell(ChunkGathered(1)) == [Finish()]


def test_more_workers_than_were_asked_for_go_back_at_once() -> None:
    played = Played(chunks=3, max_workers=2)
    effects = played.tell(recruited(worker(1), worker(2), worker(3)))
    assert ReleaseWorker(worker(3)) in effects
    assert assigned(effects) == [(ONE, 0), (TWO, 1)]


# Once, and not twice


def test_what_comes_twice_or_late_is_not_committed() -> None:
    played = Played(chunks=3, max_workers=2)
    played.tell(recruited(worker(1), worker(2)))
    assert CommitChunk(0) in played.tell(ChunkFinished(ONE, 0, 5))
    assert played.tell(ChunkFinished(ONE, 0, 5), ChunkFinished(TWO, 0, 5)) == []
    played.tell(WorkerLost(TWO))
    assert not [effect for effect in played.tell(ChunkFinished(TWO, 1, 5)) if isinstance(effect, CommitChunk)]
    assert not played.tell(ChunkRefused(TWO, 1))


def test_a_worker_is_lost_once() -> None:
    played = Played(chunks=3, max_workers=2)
    played.tell(recruited(worker(1), worker(2)))
    assert ReleaseWorker(worker(2)) in played.tell(WorkerLost(TWO))
    assert played.tell(WorkerLost(TWO)) == []
    assert played.machine.lost == 1


# Lost workers


def test_the_chunks_of_a_lost_worker_go_first_in_their_order() -> None:
    played = Played(chunks=6, max_workers=2)
    played.tell(recruited(worker(1, slots=2), worker(2, slots=2)))  # chunks 0 and 2, 1 and 3
    effects = played.tell(WorkerLost(ONE))
    assert [effect for effect in effects if isinstance(effect, HangUp)] == [HangUp(ONE, 2), HangUp(ONE, 0)]
    assert ReleaseWorker(worker(1, slots=2)) in effects
    assert assigned(played.finish(TWO, 1)) == [(TWO, 0)]
    assert assigned(played.finish(TWO, 3)) == [(TWO, 2)]
    assert played.machine.retried == 2


def test_a_lost_worker_is_replaced_at_once_and_then_with_more_and_more_patience() -> None:
    played = Played(chunks=6, max_workers=1, alone_at_once=1)
    played.tell(recruited(worker(1)))
    assert Recruit(1) in played.tell(WorkerLost(ONE, had_chunk=False))
    played.tell(recruited(worker(2)))
    waits: list[float] = []
    for seat in range(2, 6):
        before = played.now
        effects = played.tell(WorkerLost(Seat(seat), had_chunk=False))
        assert Recruit(1) not in effects
        played.tell(*(ChunkFinished(ROOT, effect.chunk, 0) for effect in effects if isinstance(effect, SearchAlone)))
        assert Recruit(1) in played.pass_time()
        waits.append(played.now - before)
        played.tell(recruited(worker(seat + 1)))
    assert waits == [0.5, 1.0, 2.0, 4.0]


def test_a_worker_that_finishes_a_chunk_restores_the_trust_in_others() -> None:
    played = Played(chunks=9, max_workers=1)
    played.tell(recruited(worker(1)))
    played.tell(WorkerLost(ONE), recruited(worker(2)))
    played.finish(TWO, 0)
    assert Recruit(1) in played.tell(WorkerLost(TWO))


def test_nobody_is_asked_for_when_nothing_is_left_to_do() -> None:
    played = Played(chunks=2, max_workers=2)
    played.tell(recruited(worker(1), worker(2)))
    played.finish(ONE, 0)
    effects = played.tell(WorkerLost(TWO))
    assert Recruit(1) in effects  # the chunk that it had is left
    assert assigned(played.tell(recruited(worker(3)))) == [(THREE, 1)]
    assert Finish() in played.finish(THREE, 1)


# Chunks that kill


def test_a_chunk_that_has_lost_three_workers_is_given_up_and_the_root_does_not_touch_it() -> None:
    played = Played(chunks=1, max_workers=1)
    effects = played.tell(recruited(worker(1)), WorkerLost(ONE), recruited(worker(2)), WorkerLost(TWO))
    effects += played.pass_time()
    effects += played.tell(recruited(worker(3)), WorkerLost(THREE))
    assert [effect for effect in effects if isinstance(effect, GiveUp | Finish)] == [GiveUp(0, 3), Finish()]
    assert not [effect for effect in effects if isinstance(effect, SearchAlone)]


def test_before_its_last_chance_a_chunk_is_kept_apart_so_that_it_takes_no_other_with_it() -> None:
    played = Played(chunks=5, max_workers=1)
    played.tell(recruited(worker(1, slots=2)), WorkerLost(ONE))
    played.tell(recruited(worker(2, slots=2)), WorkerLost(TWO))  # 0 and 1 have lost two workers each
    played.pass_time()
    effects = played.tell(recruited(worker(3, slots=2)))
    assert assigned(effects) == [(THREE, 0)]
    effects = played.finish(THREE, 0)  # that one was innocent
    assert assigned(effects) == [(THREE, 1)]
    assert GiveUp(1, 3) in played.tell(WorkerLost(THREE))


def test_a_worker_is_kept_free_for_a_chunk_before_its_last_chance() -> None:
    played = Played(chunks=[10] * 9, max_workers=2)
    played.tell(recruited(worker(1, slots=2), worker(2)))  # 0 and 2, 1
    played.tell(WorkerLost(TWO), recruited(worker(3)), WorkerLost(THREE))  # 1 is suspect
    played.tell(ChunkFinished(ONE, 0, 0))
    assert assigned(played.tell(ChunkFinished(ONE, 2, 0))) == [(ONE, 1)]


def test_without_anybody_to_take_its_last_chance_a_chunk_is_given_up() -> None:
    played = Played(chunks=1, max_workers=1)
    played.tell(recruited(worker(1)), WorkerLost(ONE), recruited(worker(2)), WorkerLost(TWO))
    effects: list[Effect] = []
    for _ in range(4):
        effects += played.pass_time()
        effects += played.tell(recruited())
    assert [effect for effect in effects if not isinstance(effect, Recruit)] == [GiveUp(0, 2), Finish()]


def test_a_worker_that_was_not_reached_is_no_fault_of_the_chunk() -> None:
    played = Played(chunks=1, max_workers=1)
    played.tell(recruited(worker(1)))
    for seat in range(1, 9):
        effects = played.tell(WorkerLost(Seat(seat), had_chunk=False))
        if seat > 1:
            assert effects[-1] == SearchAlone(0)
            break
        played.tell(recruited(worker(seat + 1)))
    assert Finish() in played.finish(ROOT, 0)


# Alone


def test_with_nobody_there_the_root_searches_alone_at_once() -> None:
    played = Played(chunks=3, alone_at_once=2)
    assert played.tell(recruited()) == [SearchAlone(0), SearchAlone(1)]
    assert played.finish(ROOT, 1) == [SearchAlone(2)]


def test_a_root_without_recruiters_asks_nobody() -> None:
    played = Played(chunks=2, max_workers=0)
    assert played.started == [SearchAlone(0)]
    played.finish(ROOT, 0)
    assert played.finish(ROOT, 1) == [Finish()]


def test_who_is_alone_goes_on_asking_while_a_lot_is_left_and_hands_over() -> None:
    played = Played(chunks=9, max_workers=2)
    played.tell(recruited())
    assert played.pass_time() == [Recruit(2)]
    assert played.finish(ROOT, 0) == [SearchAlone(1)]  # it does not wait for the answer
    assert assigned(played.tell(recruited(worker(1)))) == [(ONE, 2)]
    assert played.finish(ROOT, 1) == []  # it has workers now


def test_who_is_alone_does_the_last_chunks_itself() -> None:
    played = Played(chunks=2, max_workers=2)
    played.tell(recruited())
    assert played.pass_time() == []
    assert played.machine.next_deadline() is None


def test_who_has_few_workers_asks_for_more_now_and_then() -> None:
    played = Played(chunks=9, max_workers=3)
    played.tell(recruited(worker(1)))
    assert played.pass_time() == [Recruit(2)]
    played.tell(recruited(worker(2)))
    assert played.pass_time() == [Recruit(1)]


def test_a_root_that_has_lost_everybody_waits_for_the_answer_before_it_searches_alone() -> None:
    played = Played(chunks=3, max_workers=1)
    played.tell(recruited(worker(1)))
    effects = played.tell(WorkerLost(ONE))
    assert Recruit(1) in effects
    assert not [effect for effect in effects if isinstance(effect, SearchAlone)]
    assert played.tell(recruited()) == [SearchAlone(0)]


# Bounds


def test_no_chunk_is_given_out_while_too_much_is_being_searched() -> None:
    played = Played(chunks=[60, 60, 30], max_workers=3, running_bytes=100)
    effects = played.tell(recruited(worker(1), worker(2), worker(3)))
    assert assigned(effects) == [(ONE, 0)]
    assert assigned(played.finish(ONE, 0)) == [(ONE, 1), (TWO, 2)]


def test_a_chunk_larger_than_the_bound_has_its_turn_when_nothing_else_runs() -> None:
    played = Played(chunks=[10, 500], max_workers=2, running_bytes=100)
    assert assigned(played.tell(recruited(worker(1), worker(2)))) == [(ONE, 0)]
    assert assigned(played.finish(ONE, 0)) == [(ONE, 1)]


def test_no_chunk_is_given_out_while_answers_wait_to_be_gathered() -> None:
    played = Played(chunks=3, max_workers=1, held_bytes=100)
    played.tell(recruited(worker(1)))
    assert assigned(played.tell(ChunkFinished(ONE, 0, 100))) == []
    assert assigned(played.tell(ChunkGathered(0))) == [(ONE, 1)]


def test_a_worker_that_would_have_to_wait_for_long_goes_home_and_another_is_asked_for_later() -> None:
    played = Played(chunks=3, max_workers=1, held_bytes=100)
    played.tell(recruited(worker(1)))
    played.tell(ChunkFinished(ONE, 0, 100))
    assert played.pass_time() == [ReleaseWorker(worker(1))]
    assert played.machine.next_deadline() is None
    assert played.tell(ChunkGathered(0)) == [Recruit(1)]


def test_the_patience_with_a_worker_that_waits_begins_when_its_chunk_was_done() -> None:
    played = Played(chunks=3, max_workers=1, held_bytes=100)
    played.tell(recruited(worker(1)))
    played.now += 60.0
    assert not [effect for effect in played.tell(ChunkFinished(ONE, 0, 100)) if isinstance(effect, ReleaseWorker)]
    assert played.machine.next_deadline() == played.now + 4.0


# Ends


def test_a_chunk_that_is_refused_is_not_tried_again() -> None:
    played = Played(chunks=2, max_workers=1)
    played.tell(recruited(worker(1)))
    assert assigned(played.tell(ChunkRefused(ONE, 0))) == [(ONE, 1)]
    assert Finish() in played.finish(ONE, 1)


@pytest.mark.parametrize("end", [SearchSatisfied(), SearchCanceled()])
def test_an_end_hangs_up_on_everybody_and_releases_everybody(end: Event) -> None:
    played = Played(chunks=5, max_workers=2)
    played.tell(recruited(worker(1), worker(2)))
    assert played.tell(end) == [
        HangUp(ONE, 0),
        ReleaseWorker(worker(1)),
        HangUp(TWO, 1),
        ReleaseWorker(worker(2)),
        Finish(),
    ]
    assert played.tell(ChunkFinished(ONE, 0, 1), WorkerLost(TWO), end, TimePassed()) == []
    assert played.machine.next_deadline() is None


def test_an_end_stops_what_the_root_searches_itself() -> None:
    played = Played(chunks=5)
    played.tell(recruited())
    assert played.tell(SearchCanceled()) == [HangUp(ROOT, 0), Finish()]


def test_workers_that_come_after_the_end_are_released_at_once() -> None:
    played = Played(chunks=5, max_workers=2)
    assert played.tell(SearchCanceled()) == [Finish()]
    assert played.tell(recruited(worker(1), worker(2))) == [ReleaseWorker(worker(1)), ReleaseWorker(worker(2))]


def test_a_clock_that_goes_backwards_stands_still() -> None:
    played = Played(chunks=9, max_workers=2)
    played.tell(recruited(worker(1)))
    deadline = played.machine.next_deadline()
    played.now = 0.0
    assert played.tell(TimePassed()) == []
    assert played.machine.next_deadline() == deadline
