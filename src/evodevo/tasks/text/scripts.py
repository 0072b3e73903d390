"""Detection of the script of a text by the Unicode blocks of its letters."""

from __future__ import annotations

from collections import Counter

# Blocks of letters in wide use, as (first, last) code points of the Unicode charts.
_BLOCKS: dict[str, tuple[tuple[int, int], ...]] = {
    "Latin": ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF)),
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F),),
    "Armenian": ((0x530, 0x58F),),
    "Hebrew": ((0x590, 0x5FF),),
    "Arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC)),
    "Devanagari": ((0x900, 0x97F),),
    "Bengali": ((0x980, 0x9FF),),
    "Tamil": ((0xB80, 0xBFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Georgian": ((0x10A0, 0x10FF),),
    "Ethiopic": ((0x1200, 0x137F),),
    "Kana": ((0x3040, 0x30FF),),
    "Han": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F)),
    "Hangul": ((0x1100, 0x11FF), (0xAC00, 0xD7AF)),
}
OTHER = "other"


def script(text: str) -> str:
    """The script of most letters of a text; "other" where no letter belongs to a known one.

    Japanese is "Kana" where kana outnumber Chinese characters, else "Han", because only blocks are counted.
    """
    counts: Counter[str] = Counter()
    for letter, times in Counter(text).items():
        if letter.isalpha():
            counts[_script_of(ord(letter))] += times
    del counts[OTHER]
    # Ties are broken by name, so that the result does not depend on the order of the text.
    return min(counts, key=lambda name: (-counts[name], name), default=OTHER)


def _script_of(code: int) -> str:
    for name, blocks in _BLOCKS.items():
        if any(first <= code <= last for first, last in blocks):
            return name
    return OTHER
