"""Trouble with a peer is told when it changes, and is known for as long as it lasts."""

from quarterdeck.crew.process.dial_trouble import AGAIN_S, DialTrouble


class Scene:
    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.told: list[tuple[str, str]] = []
        self.trouble = DialTrouble(lambda address, why: self.told.append((address, why)), lambda: self.now_s)


def test_the_same_trouble_is_told_once_and_again_after_a_while() -> None:
    scene = Scene()
    for _ in range(100):
        scene.trouble.met("c0:7071", "c0:7071 is not there")
        scene.now_s += AGAIN_S / 50
    assert scene.told == [("c0:7071", "c0:7071 is not there")] * 2


def test_another_trouble_is_told_at_once() -> None:
    scene = Scene()
    for why in ("refused", "refused", "wrong token", "refused"):
        scene.trouble.met("c0:7071", why)
    assert [why for _, why in scene.told] == ["refused", "wrong token", "refused"]


def test_addresses_are_told_apart_and_forgotten_when_they_are_connected() -> None:
    scene = Scene()
    scene.trouble.met("c1:7071", "c1 refused")
    scene.trouble.met("c0:7071", "c0 refused")
    assert scene.trouble.current() == ["c0 refused", "c1 refused"]
    scene.trouble.over("c0:7071")
    scene.trouble.over("nobody:7071")
    assert scene.trouble.current() == ["c1 refused"]
    scene.trouble.met("c0:7071", "c0 refused")
    assert len(scene.told) == 3
