"""One test that plays many seeds. A seed takes less time than pytest takes for a test of its own."""

from collections.abc import Callable, Iterable


def each_seed(seeds: Iterable[int]) -> Callable[[Callable[[int], None]], Callable[[], None]]:
    """The test plays one seed after another, and its failure names the seed."""

    def playing(test: Callable[[int], None]) -> Callable[[], None]:
        def play() -> None:
            for seed in seeds:
                try:
                    test(seed)
                except BaseException as error:
                    error.add_note(f"seed {seed}; a call with this one alone: {test.__name__}.of_seed({seed})")
                    raise

        # Not functools.wraps: pytest would look for a fixture named seed.
        play.__name__, play.__qualname__ = test.__name__, test.__qualname__
        play.__doc__, play.__module__ = test.__doc__, test.__module__
        play.__dict__["of_seed"] = test
        return play

    return playing
