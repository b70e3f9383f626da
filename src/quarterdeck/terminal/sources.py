"""Where files are, as people name them at a terminal."""

import typer

from quarterdeck.paths import whole_location


def absolute(source: str) -> str:
    """A path as it is seen from anywhere: the coordinator was started in another folder."""
    try:
        return whole_location(source)
    except ValueError as error:
        raise typer.BadParameter(f"{source}: {error}", param_hint="SOURCES") from None
