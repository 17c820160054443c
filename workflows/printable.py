"""Text that comes from elsewhere, made fit for a terminal."""

from __future__ import annotations

import unicodedata

# Control characters (an escape sequence can rewrite what a terminal shows, or its title), invisible ones that turn the
# direction of writing, halves of characters, and line ends of any kind.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
LONGEST = 4000


def printable(text: str) -> str:
    """`text` in one line of what a person can see: anything else as Python escapes it, ``\\x1b`` and so on.

    A name or an attribute of somebody else's store may hold anything. What is longer than a few pages is cut.
    """
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text):,} characters)"
    if text.isprintable():
        return text
    return "".join(_escaped(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def printable_lines(text: str) -> str:
    """`text` line by line, each as :func:`printable`."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
