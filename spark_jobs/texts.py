"""Texts of events in places that people and other languages read: nothing in them gets out of its place."""

from __future__ import annotations

import unicodedata


def literal(value: str, mark: str = '"') -> str:
    """A text between quotation marks as YAML (with `"`), Jinja and Python take it, whatever is in it."""
    return mark + "".join(_escaped(letter, mark) for letter in value) + mark


def folded(name: str) -> str:
    """What two names share that Spark takes for one, as the macro of this name has it: letter by letter.

    They have letters that are alike in upper case (`ı` and `i`) or in lower (`İ` and `i`, `ẞ` and `ß`).
    """
    return "".join(map(_folded_letter, name.replace("\u0130", "i")))


def visible(value: object, kept: str = "\n\t") -> str:
    """A text with its invisible letters spelled, but for those `kept`.

    Escapes could command a terminal, and marks of direction make a name read as another.
    """
    return "".join(letter if letter in kept else _spelled(letter) for letter in str(value))


def on_one_line(value: object) -> str:
    """A text as a part of a line for people: nothing in it can begin another line or command a terminal."""
    return visible(value, kept="")


def quantity(number: int, noun: str, nouns: str | None = None) -> str:
    """How many of something, in words: `1 key`, `12,345 keys`. `nouns` is the plural, by default `noun` and an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def _folded_letter(letter: str) -> str:
    """A letter in lower case behind upper case, as far as either is one letter."""
    capital = next(one for one in (letter.upper(), letter.title(), letter) if len(one) == 1)
    return capital.lower() if len(capital.lower()) == 1 else capital


def _escaped(letter: str, mark: str) -> str:
    if letter in (mark, "\\"):
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _spelled(letter: str) -> str:
    """A letter, or where it is not seen its code in UTF-16, as JSON spells it."""
    if unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return letter
    code = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[i : i + 4]}" for i in range(0, len(code), 4))
