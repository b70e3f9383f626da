"""Makes queries wrong, so that refusing is compared too."""

from random import Random


def broken(random: Random, text: str, scalar: str) -> str:
    """The text with a bracket taken out, or put where it does not fit: mostly no query any more."""
    marks = [place for place, mark in enumerate(text) if mark in "()[]{},"]
    choice = random.random()
    if marks and choice < 0.5:
        place = random.choice(marks)
        return text[:place] + text[place + 1 :]
    return random.choice(
        (
            f"rate({text})",
            f"sum(1) + {text}",
            f"({text}) == bool",
            f"abs({text}, {text})",
            f"nofunction({text})",
            f"({text}) and 1",
            f"topk({text})",
            f'label_replace({text}, "a", "b", "c", "(")',
            f"({text})[5m]",
            f"{text} offset",
            f"1 > {text}",
            f"count_values(1, {text})",
            f"1 == 1 or ({text})",
            f"double_exponential_smoothing(temperature[5m], 2, {scalar})",
            f'label_replace(temperature, "instance", "", "", "") + ({text})',
            f"scalar({text}) > scalar({text})",
        )
    )
