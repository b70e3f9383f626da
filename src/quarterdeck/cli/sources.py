"""Where files are, as people name them at a terminal."""

import os


def absolute(source: str) -> str:
    """A path as it is seen from anywhere: the coordinator was started in another folder."""
    return source if "://" in source else os.path.abspath(source)  # noqa: PTH100 - a glob is no path, `..` is
