"""Rows of text in one script for ``h_model.tokens``: English, German, Swahili, and the standard library of Python.

Run: python benchmarks/latin_texts.py SOURCE... TARGET, where SOURCE is the file of training rows of multilingual6, each
language with texts of its own, or the files of sib200_6, all languages with the same sentences.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sysconfig
from collections import Counter
from pathlib import Path

LANGUAGES = ("en", "de", "sw")


def code(most: int) -> list[str]:
    """Modules of the running Python's standard library in the order of their names, about so many bytes."""
    texts: list[str] = []
    size = 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        if size <= most and size + len(text.encode()) <= 1.05 * most:
            texts.append(text)
            size += len(text.encode())
    return texts


def rows_of(path: Path) -> list[dict[str, str]]:
    """Language and text of each row: a row is of one language, or has a column for each."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    parallel = [{"lang": name, "text": row[name]} for row in rows if "lang" not in row for name in LANGUAGES]
    return parallel + [row for row in rows if row.get("lang") in LANGUAGES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="+", help="rows of lang and text, or of a text for each language")
    parser.add_argument("target", type=Path, help="where the rows go, as JSON lines")
    arguments = parser.parse_args()
    rows = [row for source in arguments.source for row in rows_of(source)]
    sizes = Counter[str]()
    for row in rows:
        sizes[row["lang"]] += len(row["text"].encode())
    rows += [{"lang": "python", "text": text} for text in code(max(sizes.values()))]
    sizes.clear()
    with arguments.target.open("w", encoding="utf-8") as written:
        for row in rows:
            sizes[row["lang"]] += len(row["text"].encode())
            written.write(json.dumps({"lang": row["lang"], "text": row["text"]}, ensure_ascii=False) + "\n")
    print(*(f"{name}: {size:,} bytes" for name, size in sizes.items()), sep="\n")


if __name__ == "__main__":
    main()
