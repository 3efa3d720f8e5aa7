"""What the command lines of benchmarks share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def at_least_one(text: str) -> int:
    """A whole number of at least 1, or an error that argparse reports.

    >>> at_least_one("3")
    3
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def no_options(about: str, given: Sequence[str] | None = None) -> None:
    """Answer ``--help`` with `about`, and refuse everything else, on the command line of a benchmark without options.

    >>> no_options("Measures something.", given=[])
    """
    form = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=about, formatter_class=form).parse_args(given)
