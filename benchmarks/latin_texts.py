"""Rows of text in one script for ``h_model.tokens``: English, German, Swahili, and the standard library of Python.

Run: python benchmarks/latin_texts.py SOURCE TARGET, where SOURCE is the file of training rows of multilingual6.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sysconfig
from collections import Counter
from pathlib import Path

LANGUAGES = ("en", "de", "sw")
BYTES = 620_000
"""About as many as the file has of each language."""


def code(most: int) -> list[str]:
    """Modules of the running Python's standard library in the order of their names, up to so many bytes."""
    texts: list[str] = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        if sum(len(text.encode()) for text in texts) > most:
            break
        texts.append(path.read_text(encoding="utf-8", errors="ignore"))
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="rows of lang and text: train.jsonl.gz of multilingual6")
    parser.add_argument("target", type=Path, help="where the rows go, as JSON lines")
    arguments = parser.parse_args()
    with gzip.open(arguments.source, "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["lang"] in LANGUAGES]
    rows += [{"lang": "python", "text": text} for text in code(BYTES)]
    sizes = Counter[str]()
    with arguments.target.open("w", encoding="utf-8") as written:
        for row in rows:
            sizes[row["lang"]] += len(row["text"].encode())
            written.write(json.dumps({"lang": row["lang"], "text": row["text"]}, ensure_ascii=False) + "\n")
    print(*(f"{name}: {size:,} bytes" for name, size in sizes.items()), sep="\n")


if __name__ == "__main__":
    main()
