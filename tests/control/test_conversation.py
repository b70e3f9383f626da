"""One session's traffic: order, numbers, a bounded outbox, and ends that say why."""

import asyncio
from collections.abc import Iterable
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.control import conversation as conversation_module
from quarterdeck.control.conversation import OUTBOX_LIMIT, STALL_S, Conversation
from quarterdeck.control.link import Envelope, Message
from quarterdeck.core.ids import LeafId, QueryId, SessionId, WorkId
from quarterdeck.core.workcoord.kinds import WorkKind
from quarterdeck.core.workcoord.messages import (
    ArtifactAck,
    AssignWork,
    CoordinatorBeat,
    CreditConfirmed,
    WorkAccepted,
    WorkerBeat,
    WorkFailed,
)
from quarterdeck.core.workcoord.model import WorkError, WorkKey, WorkSpec
from quarterdeck.core.workcoord.peer import LossReason
from tests.crew.played import ACCEPTING, PlayedLink, now_s, played, settle

BEAT = WorkerBeat(ACCEPTING)
_MUCH = b"x" * (4 * 1024 * 1024)


def _talking(link: PlayedLink) -> "tuple[Conversation, list[Message], asyncio.Task[str]]":
    conversation = Conversation(link)
    conversation.session_id = link.session_id = SessionId("s1")
    taken: list[Message] = []

    def take(messages: Iterable[Message]) -> None:
        taken.extend(messages)

    return conversation, taken, asyncio.create_task(conversation.talk(take))


@played
async def test_messages_sent_together_travel_in_one_envelope() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    for credit in range(5):
        conversation.send(CreditConfirmed(credit))
    assert await link.hear() == tuple(CreditConfirmed(credit) for credit in range(5))
    conversation.send(BEAT)
    assert await link.hear() == (BEAT,)
    assert [envelope.sequence for envelope in link.sent] == [0, 1]
    assert {envelope.session_id for envelope in link.sent} == {"s1"}
    link.hang_up()
    assert await talk == "hung up"
    assert link.closed


@played
async def test_a_burst_is_split_into_envelopes_of_limited_size_and_keeps_its_order() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    burst = [CreditConfirmed(credit) for credit in range(2000)]
    for message in burst:
        conversation.send(message)
    conversation.finish()
    await talk
    assert link.said_by_driver() == burst
    assert [len(envelope.messages) for envelope in link.sent] == [512, 512, 512, 464]
    assert [envelope.sequence for envelope in link.sent] == [0, 1, 2, 3]


@played
async def test_everything_heard_is_taken_in_order_also_what_came_before_the_talk() -> None:
    link = PlayedLink()
    conversation = Conversation(link)
    conversation.unread = [CreditConfirmed(0)]
    taken: list[Message] = []
    link.say(CreditConfirmed(1), CreditConfirmed(2))
    link.say(CreditConfirmed(3))
    link.hang_up()
    assert await conversation.talk(taken.extend) == "hung up"
    assert conversation.loss is LossReason.CONNECTION_LOST
    assert taken == [CreditConfirmed(credit) for credit in range(4)]


@pytest.mark.parametrize("ends", [LossReason.CONNECTION_LOST, LossReason.PROTOCOL])
@played
async def test_an_outbox_that_fills_up_after_the_end_is_not_what_ended_it(ends: LossReason) -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    if ends is LossReason.PROTOCOL:
        link.say_envelope(Envelope(SessionId("s1"), 7, (BEAT,)))
    else:
        link.hang_up()
    await talk
    for credit in range(OUTBOX_LIMIT + 1):
        conversation.send(CreditConfirmed(credit))
    assert conversation.loss is ends


@played
async def test_an_envelope_out_of_turn_ends_the_session() -> None:
    link = PlayedLink()
    conversation, taken, talk = _talking(link)
    link.say(BEAT)
    link.say_envelope(Envelope(SessionId("s1"), 2, (CoordinatorBeat(),)))
    assert await talk == "envelope 2 came where 1 was due"
    assert conversation.loss is LossReason.PROTOCOL
    assert taken == [BEAT]
    assert link.closed


@played
async def test_a_repeated_envelope_ends_the_session() -> None:
    link = PlayedLink()
    _, taken, talk = _talking(link)
    link.say_envelope(Envelope(SessionId("s1"), 0, (BEAT,)))
    link.say_envelope(Envelope(SessionId("s1"), 0, (BEAT,)))
    assert await talk == "envelope 0 came where 1 was due"
    assert taken == [BEAT]


@played
async def test_an_envelope_of_another_session_ends_the_session() -> None:
    link = PlayedLink()
    _, taken, talk = _talking(link)
    link.say_envelope(Envelope(SessionId("s0"), 0, (BEAT,)))
    assert await talk == "an envelope of session s0 came on session s1"
    assert taken == []
    assert link.closed


@played
async def test_a_peer_that_does_not_read_is_cut_off_and_the_outbox_stays_bounded() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    for number in range(3 * OUTBOX_LIMIT):
        conversation.send(BEAT)
        if number % 1000 == 0:
            await settle()
        assert len(conversation._outbox) <= OUTBOX_LIMIT  # pyright: ignore[reportPrivateUsage]
    assert link.closed
    assert await talk == "the peer does not read"
    assert len(link.sent) == 1


@played
async def test_finishing_writes_what_was_sent_before() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    conversation.send(CreditConfirmed(2))
    conversation.finish()
    assert await talk == "closed by us"
    assert link.said_by_driver() == [CreditConfirmed(1), CreditConfirmed(2)]
    assert link.closed


@played
async def test_finishing_waits_for_a_slow_reader_but_not_for_long() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    await settle()
    conversation.send(CreditConfirmed(2))
    conversation.finish()
    await asyncio.sleep(0.5)
    assert not talk.done()
    assert await link.hear() == (CreditConfirmed(1),)
    assert await talk == "closed by us"
    assert link.said_by_driver() == [CreditConfirmed(1), CreditConfirmed(2)]


@pytest.mark.parametrize("writing_already", [False, True])
@played
async def test_finishing_gives_up_on_a_peer_that_does_not_read(writing_already: bool) -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    await settle()
    began_s = now_s()
    conversation.send(CreditConfirmed(2))
    if writing_already:
        await settle()
    conversation.finish()
    conversation.finish()  # again is fine
    assert await talk == "closed by us with words unsaid: the peer does not read"
    assert now_s() - began_s == pytest.approx(1.0, abs=0.001)
    assert link.closed


@played
async def test_a_peer_that_hangs_up_while_we_write_ends_the_session() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    await settle()
    conversation.send(CreditConfirmed(2))
    await settle()
    link.hang_up()
    assert await talk in ("hung up", "nobody is there")
    assert link.closed


@played
async def test_a_canceled_talk_closes_the_connection_and_leaves_no_writer() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    conversation.send(BEAT)
    await settle()
    talk.cancel()
    await asyncio.wait((talk,))
    assert talk.cancelled()
    assert link.closed
    assert len(asyncio.all_tasks()) == 1


@played
async def test_an_error_in_what_takes_the_messages_is_not_swallowed() -> None:
    link = PlayedLink()
    conversation = Conversation(link)

    def take(messages: Iterable[Message]) -> None:
        if list(messages):
            raise LookupError("a bug of ours")

    link.say(BEAT)
    with pytest.raises(LookupError, match="a bug of ours"):
        await conversation.talk(take)
    assert link.closed


@played
async def test_a_message_that_cannot_be_written_is_a_bug_of_ours_and_is_not_swallowed() -> None:
    class BrokenLink(PlayedLink):
        async def send(self, envelope: Envelope) -> None:
            raise OverflowError("a number too large for the wire")

    link = BrokenLink()
    conversation, _, talk = _talking(link)
    conversation.send(BEAT)
    await asyncio.wait((talk,))
    with pytest.raises(OverflowError, match="too large for the wire"):
        talk.result()
    assert link.closed


# Envelopes of limited size

LIMIT_BYTES = 1000


def _work(name: int, size_bytes: int) -> AssignWork:
    key = WorkKey(QueryId("q"), LeafId("l"), WorkId(str(name)))
    return AssignWork(WorkSpec(key, WorkKind("leaf"), bytes(size_bytes)), 1)


def _failure(name: int, size: int) -> WorkFailed:
    return WorkFailed(_work(name, 0).attempt, WorkError("internal", "x" * size))


def _size(message: Message) -> int:
    match message:
        case AssignWork(spec):
            return len(spec.payload)
        case WorkFailed(_, error):
            return len(error.message)
        case _:
            return 0


MESSAGES = st.lists(
    st.one_of(
        st.builds(_work, st.integers(0, 99), st.integers(0, 1500)),
        st.builds(_failure, st.integers(0, 99), st.integers(0, 1500)),
        st.builds(CreditConfirmed, st.integers(0, 9)),
    ),
    max_size=30,
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(bursts=st.lists(MESSAGES, max_size=4), per_envelope=st.integers(1, 12))
def test_no_envelope_is_too_large_unless_it_holds_one_message_alone_and_the_order_is_kept(
    bursts: list[list[Message]], per_envelope: int
) -> None:
    @played
    async def scenario() -> None:
        link = PlayedLink()
        conversation, _, talk = _talking(link)
        for burst in bursts:
            for message in burst:
                conversation.send(message)
            await asyncio.sleep(0.01)
            assert conversation._outbox_bytes == 0  # pyright: ignore[reportPrivateUsage]
        conversation.finish()
        assert await talk == "closed by us"
        assert link.said_by_driver() == [message for burst in bursts for message in burst]
        assert [envelope.sequence for envelope in link.sent] == list(range(len(link.sent)))
        for envelope in link.sent:
            messages = envelope.messages
            assert 1 <= len(messages) <= per_envelope
            assert len(messages) == 1 or sum(map(_size, messages)) <= LIMIT_BYTES

    with (
        patch.object(conversation_module, "_PER_ENVELOPE_BYTES", LIMIT_BYTES),
        patch.object(conversation_module, "_PER_ENVELOPE", per_envelope),
    ):
        scenario()


@played
async def test_an_outbox_of_large_messages_is_bounded_by_their_size() -> None:
    link = PlayedLink(room=1)
    with patch.object(conversation_module, "OUTBOX_LIMIT_BYTES", 10_000):
        conversation, _, talk = _talking(link)
        for number in range(100):
            conversation.send(_work(number, 900) if number % 2 else _failure(number, 900))
            assert conversation._outbox_bytes <= 10_900  # pyright: ignore[reportPrivateUsage]
        assert await talk == "the peer does not read"
    assert link.closed


@played
async def test_a_peer_that_reads_nothing_for_too_long_loses_the_session() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    await settle()
    began_s = now_s()
    conversation.send(CreditConfirmed(2))
    assert await talk == "the peer does not read"
    assert now_s() - began_s == pytest.approx(STALL_S, abs=0.001)


@played
async def test_a_peer_that_reads_slowly_keeps_the_session() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    for credit in range(4):
        conversation.send(CreditConfirmed(credit))
        await settle()
        await asyncio.sleep(STALL_S - 1)
        assert await link.hear() == (CreditConfirmed(credit),)
    assert not talk.done()
    link.hang_up()
    assert await talk == "hung up"


ATTEMPT = _work(1, 0).attempt


@played
async def test_a_word_in_no_hurry_goes_with_the_next_that_is() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    await asyncio.sleep(1)
    conversation.send(ArtifactAck(ATTEMPT))
    await settle()
    assert link.sent == []
    conversation.send(CreditConfirmed(1))
    await settle()
    assert [envelope.messages for envelope in link.sent] == [(ArtifactAck(ATTEMPT), CreditConfirmed(1))]
    conversation.finish()
    await talk


@played
async def test_a_word_in_no_hurry_waits_twenty_milliseconds_at_most_and_each_time_anew() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    await asyncio.sleep(1)
    for number in range(1, 4):
        conversation.send(WorkAccepted(ATTEMPT))
        await asyncio.sleep(0.0199)
        assert len(link.sent) == number - 1
        await asyncio.sleep(0.0002)
        assert len(link.sent) == number
        await asyncio.sleep(0.1)
    conversation.finish()
    await talk


@played
async def test_a_word_that_wants_company_goes_when_it_has_it() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    await asyncio.sleep(1)
    for _ in range(2):
        conversation.send(WorkAccepted(ATTEMPT))  # no company: it is in no hurry itself
        for number in range(3):
            await settle()
            assert not link.unheard
            conversation.send(CreditConfirmed(number), company=3)
        assert await link.hear() == (WorkAccepted(ATTEMPT), *map(CreditConfirmed, range(3)))
        await asyncio.sleep(1)
    conversation.finish()
    await talk


@played
async def test_a_word_whose_company_does_not_come_goes_alone_in_the_end() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    await asyncio.sleep(1)
    conversation.send(CreditConfirmed(1), company=2)
    assert await link.hear() == (CreditConfirmed(1),)
    assert now_s() == pytest.approx(1.02, abs=0.001)
    conversation.finish()
    await talk


@pytest.mark.parametrize("number, at_s", [(1, 1.02), (2, 1.0)])
def test_that_a_work_is_begun_again_goes_at_once(number: int, at_s: float) -> None:
    """It may be about to end its worker, as it has done before."""

    @played
    async def test() -> None:
        link = PlayedLink()
        conversation, _, talk = _talking(link)
        await asyncio.sleep(1)
        conversation.send(WorkAccepted(ATTEMPT._replace(number=number)))
        await link.hear()
        assert now_s() == pytest.approx(at_s, abs=0.001)
        conversation.finish()
        await talk

    test()


@played
async def test_what_comes_during_a_write_has_its_own_company_to_wait_for() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    await asyncio.sleep(1)
    conversation.send(BEAT)
    await asyncio.sleep(0.1)
    conversation.send(BEAT)
    await asyncio.sleep(0.1)  # the second is being written: the peer has not taken the first
    conversation.send(CreditConfirmed(1), company=3)
    conversation.send(CreditConfirmed(2), company=3)
    assert [await link.hear(), await link.hear()] == [(BEAT,), (BEAT,)]
    await asyncio.sleep(0.01)
    assert not link.unheard
    conversation.send(CreditConfirmed(3), company=3)
    assert await link.hear() == tuple(map(CreditConfirmed, (1, 2, 3)))
    conversation.finish()
    await talk


@played
async def test_large_words_do_not_wait_for_company_until_the_outbox_is_full() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    await asyncio.sleep(1)
    for number in range(100):
        conversation.send(AssignWork(_large(number), 1), company=1000)
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.1)
    assert len(link.said_by_driver()) == 100
    assert not link.closed
    conversation.finish()
    await talk


def _large(number: int) -> WorkSpec:
    key = WorkKey(QueryId("q"), LeafId("l"), WorkId(f"{number}"))
    return WorkSpec(key, WorkKind("leaf"), payload=_MUCH)


@played
async def test_a_word_in_a_hurry_takes_along_those_that_wait_for_company() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    await asyncio.sleep(1)
    conversation.send(CreditConfirmed(1), company=100)
    await asyncio.sleep(0.001)
    conversation.send(BEAT)
    assert await link.hear() == (CreditConfirmed(1), BEAT)
    assert now_s() == pytest.approx(1.001, abs=0.0001)
    conversation.finish()
    await talk


@played
async def test_envelopes_keep_their_distance_under_load_and_carry_more_for_it() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    await asyncio.sleep(1)
    for number in range(100):
        conversation.send(CreditConfirmed(number))
        if number == 0:
            await settle()
            assert len(link.sent) == 1  # after a silence a word goes at once
        await asyncio.sleep(0.0001)
    await asyncio.sleep(0.002)
    assert link.said_by_driver() == [CreditConfirmed(number) for number in range(100)]
    assert 10 <= len(link.sent) <= 13  # ten milliseconds
    conversation.finish()
    await talk


@played
async def test_last_words_do_not_wait_for_company() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    conversation.send(ArtifactAck(ATTEMPT))
    conversation.finish()
    began = now_s()
    assert await talk == "closed by us"
    assert now_s() - began < 0.0005
    assert link.said_by_driver() == [CreditConfirmed(1), ArtifactAck(ATTEMPT)]
