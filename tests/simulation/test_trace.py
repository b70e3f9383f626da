"""The trace: a digest of what happened, the part of it that concerns a work, and words for people."""

from quarterdeck.core.ids import LeafId, QueryId, SessionId, WorkerId, WorkId
from quarterdeck.core.workcoord.coordinator import effects as ef
from quarterdeck.core.workcoord.coordinator import events as ev
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import AssignWork, CoordinatorBeat, WorkAccepted, WorkReady
from quarterdeck.core.workcoord.model import Artifact, AttemptId, WorkKey, WorkSpec
from quarterdeck.simulation.faults import Crash
from quarterdeck.simulation.trace import Entry, Trace
from tests.crew.played import registration

S1 = SessionId("s1")


def spec(name: str) -> WorkSpec:
    return WorkSpec(WorkKey(QueryId("q"), LeafId("l"), WorkId(name)), WorkKind("leaf"))


def attempt(name: str, number: int = 1) -> AttemptId:
    return AttemptId(spec(name).key, number)


def told() -> Trace:
    trace = Trace()
    trace.add(0.0, "----", "w0 starts, incarnation 1")
    trace.add(0.5, "c0", ev.WorkSubmitted(spec("a")), [ef.SendToWorker(S1, AssignWork(spec("a"), 1))])
    trace.add(0.6, "c0", ev.WorkSubmitted(spec("b")))
    trace.add(0.7, "c0", ev.MessageReceived(S1, WorkAccepted(attempt("a"))))
    trace.add(0.8, "----", Crash(0.8, "w0", 1.0))
    trace.add(0.9, "c0", ev.TimePassed(), [ef.SendToWorker(S1, CoordinatorBeat())])
    return trace


def test_the_digest_is_the_same_for_the_same_story_and_another_for_any_other() -> None:
    original = told()
    assert original.digest() == told().digest()
    stories = [told() for _ in range(5)]
    stories[0].entries.pop()
    stories[1].entries.reverse()
    stories[2].entries[1] = Entry(0.500_000_1, "c0", original.entries[1].what, original.entries[1].effects)
    stories[3].entries[1] = Entry(0.5, "c1", original.entries[1].what, original.entries[1].effects)
    stories[4].entries[1] = Entry(0.5, "c0", original.entries[1].what)
    assert len({original.digest(), *(story.digest() for story in stories)}) == 6


def test_the_digest_does_not_depend_on_the_order_of_a_set() -> None:
    text = str(Entry(0.0, "c0", ev.SessionOpened(S1, registration())))
    assert "{leaf, scan}" in text


def test_what_touches_a_work_is_what_names_it_and_what_went_wrong() -> None:
    touching = told().touching(WorkId("a"), 10)
    assert [entry.at_s for entry in touching] == [0.0, 0.5, 0.7, 0.8]


def test_only_the_last_entries_are_given() -> None:
    assert [entry.at_s for entry in told().touching(WorkId("a"), 2)] == [0.7, 0.8]
    assert [entry.at_s for entry in told().touching(None, 2)] == [0.8, 0.9]


def test_an_entry_reads_as_a_line_for_the_event_and_one_for_each_effect() -> None:
    artifact = Artifact("sim://w0", 1, "sum", 1, 0, 0, 1)
    entry = Entry(
        1.25,
        "c0",
        ev.MessageReceived(S1, WorkReady(attempt("a", 2), artifact)),
        (ef.FetchArtifact(attempt("a", 2), WorkerId("w0"), artifact), ef.RefuseWork(spec("b").key, "late")),
    )
    assert str(entry).splitlines() == [
        "   1.2500 c0   MessageReceived(s1, WorkReady(a#2, Artifact))",
        "                 -> FetchArtifact(a#2, w0, Artifact)",
        "                 -> RefuseWork(b, late)",
    ]


def test_an_event_without_fields_is_its_name_and_a_note_is_itself() -> None:
    assert str(Entry(0.0, "w0", ev.TimePassed())).endswith("w0   TimePassed")
    assert str(Entry(0.0, "----", "everything heals")).endswith("---- everything heals")
    assert str(Entry(0.0, "c0", ev.WorkSubmitted(spec("a")))).endswith("WorkSubmitted(a)")
    assert str(Entry(0.0, "----", Crash(0.8, "w0", 1.0))).endswith("Crash(0.8, w0, 1.0)")
