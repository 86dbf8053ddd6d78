"""Whole numbers as words of a command line."""

import argparse


def count(text: str) -> int:
    """Return a number of things.

    Raises:
        ArgumentTypeError: it is none from 1 on.
    """
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)
