"""Makes folders of images and of recorded speech from Debian's packages: kinds of data that no choice here has seen.

Run: python benchmarks/debian_sets.py --to FOLDER [--packages FOLDER]
     [--sets clipart,icons,terrain,scripts,prompts,units,emoji,symbols]

Needs Debian's ``apt-get`` and ``dpkg-deb``; packages that lie in the folder of --packages are not fetched again. Each
set becomes ``FOLDER/SET/{train,test}/CLASS/``, a quarter of it for the test, and what belongs together (the same
drawing in another version, the same letter in another font, the same sentence in another language) is on one side:

- clipart: drawings of openclipart-png by the folder that they lie in (computer, people, food, ...); 12 classes.
- icons: icons of oxygen-icon-theme, 32 pixels wide, by their folder (actions, devices, places, ...); 6 classes.
- terrain: tiles of the game wesnoth by what they show (castle, water, forest, ...); 15 classes.
- scripts: single letters of fonts-noto-core, 32 pixels wide, by the first word of their name in Unicode, which for
  most is their script (Arabic, Cherokee, Yi, but also Old and Mathematical); 20 classes.
- prompts: sentences of asterisk-core-sounds, sounds of telephones, by their language; 5 classes, one speaker each.
- units: creatures of the game wesnoth, each in its movements, by their race (drakes, nagas, orcs, ...); 14 classes.
- emoji: coloured drawings of fonts-noto-color-emoji by their group in Unicode (food, people, flags, ...); 9 classes.
- symbols: signs of fonts-noto-core that are no letters, by the first word of their name (braille, ...); 20 classes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

SIDE = 64
"""Pixels of the longer side of a picture, at most."""
LETTER = 32
MOST_PIXELS = 16_000_000
TEST_SHARE = 4
CLIPART = (
    "computer shapes signs_and_symbols recreation people transportation food animals tools office geography plants"
)
ICONS = "actions mimetypes apps status devices places"
TERRAIN = "castle water interior walls forest flat bridge village grass cave unwalkable mountains sand hills chasm"
LANGUAGES = ("en", "es", "fr", "it", "ru")
SHORTEST = 4_000
"""Bytes of a sound, a quarter of a second; some prompts are empty."""
SCRIPTS = 20
"""Number of scripts, those with the most letters."""
RACES = (
    "drakes dunefolk dwarves elves-wood goblins human-loyalists human-magi human-outlaws monsters nagas orcs saurians "
    "undead undead-skeletal"
)
STRIKE = 109
"""Size in points of the pictures in the font of emoji, which has no other."""
LETTERS = ("Lo", "Lu", "Ll")
SIGNS = ("So", "Sm", "Sc", "Sk", "Po", "No")
"""Categories of Unicode: signs, and numbers that are no digits."""


@dataclass(frozen=True)
class Sample:
    """One file of a set.

    Attributes:
        label: Its class.
        group: What it belongs to; a group is in the training or in the test split.
        source: File that it is read from, or the letter.
    """

    label: str
    group: str
    source: Path | tuple[str, Path]


def unpacked(package: str, packages: Path) -> Path:
    """Folder with the files of a Debian package, which is fetched where it is not there."""
    folder = packages / "files" / package
    if not folder.exists():
        if not list(packages.glob(f"{package}_*.deb")):
            subprocess.run(["apt-get", "download", package], cwd=packages, check=True)
        found = next(iter(sorted(packages.glob(f"{package}_*.deb"))))
        partial = folder.with_name(f"{package}.partial")
        partial.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", str(found), str(partial)], check=True)
        partial.rename(folder)
    return folder


def by_folder(parent: Path, names: str, suffix: str = ".png") -> Iterator[Sample]:
    """Files of each named folder, whose class is the folder; the group is the name without digits."""
    for name in names.split():
        for file in sorted((parent / name).rglob(f"*{suffix}")):
            if file.is_file() and not file.is_symlink():
                yield Sample(name, f"{name}/{re.sub('[0-9]+', '', file.stem)}", file)


def clipart(packages: Path) -> Iterator[Sample]:
    """Drawings by subject."""
    return by_folder(unpacked("openclipart-png", packages) / "usr/share/openclipart/png", CLIPART)


def icons(packages: Path) -> Iterator[Sample]:
    """Icons by use."""
    return by_folder(unpacked("oxygen-icon-theme", packages) / "usr/share/icons/oxygen/base/32x32", ICONS)


def terrain(packages: Path) -> Iterator[Sample]:
    """Tiles of a map by ground."""
    return by_folder(wesnoth(packages) / "terrain", TERRAIN)


def wesnoth(packages: Path) -> Path:
    """The images of the game."""
    return unpacked("wesnoth-1.16-data", packages) / "usr/share/games/wesnoth/1.16/data/core/images"


def units(packages: Path) -> Iterator[Sample]:
    """Creatures by race; all movements of one creature belong together."""
    for sample in by_folder(wesnoth(packages) / "units", RACES):
        creature = Path(str(sample.source)).stem.partition("-")[0]
        yield Sample(sample.label, f"{sample.label}/{creature}", sample.source)


def emoji(packages: Path) -> Iterator[Sample]:
    """Coloured drawings by their group in Unicode; colours of skin and hair of one drawing belong together."""
    font = unpacked("fonts-noto-color-emoji", packages) / "usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
    listed = unpacked("unicode-data", packages) / "usr/share/unicode/emoji/emoji-test.txt"
    group = ""
    for line in listed.read_text(encoding="utf-8").splitlines():
        if line.startswith("# group:"):
            group = line.partition(":")[2].split()[0].lower()
        elif "; fully-qualified" in line and group != "component":
            characters = "".join(chr(int(code, 16)) for code in line.partition(";")[0].split())
            name = line.partition("# ")[2].split(" ", 2)[2].partition(":")[0]
            yield Sample(group, name, (characters, font))


def scripts(packages: Path) -> Iterator[Sample]:
    """Letters by script, each in every font that has it."""
    return by_first_word(packages, LETTERS)


def symbols(packages: Path) -> Iterator[Sample]:
    """Signs by the first word of their name, each in every font that has it."""
    return by_first_word(packages, SIGNS)


def by_first_word(packages: Path, categories: Container[str]) -> Iterator[Sample]:
    """Characters of these categories by the first word of their name in Unicode, of those with most characters."""
    from fontTools.ttLib import TTFont

    letters: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    fonts = unpacked("fonts-noto-core", packages) / "usr/share/fonts/truetype/noto"
    for file in sorted(fonts.glob("*-Regular.ttf")) + sorted(fonts.glob("*-Bold.ttf")):
        for code in sorted(TTFont(file, lazy=True).getBestCmap()):
            name = unicodedata.name(chr(code), "")
            if name and unicodedata.category(chr(code)) in categories:
                letters[name.split()[0].title()][chr(code)].append(file)
    most = sorted(letters, key=lambda script: (-len(letters[script]), script))[:SCRIPTS]
    for script in sorted(most):
        for letter, files in letters[script].items():
            yield from (Sample(script, letter, (letter, file)) for file in files)


def prompts(packages: Path) -> Iterator[Sample]:
    """Sentences of a telephone exchange by language."""
    for language in LANGUAGES:
        sounds = unpacked(f"asterisk-core-sounds-{language}-wav", packages) / "usr/share/asterisk/sounds"
        for folder in sorted(one for one in sounds.iterdir() if one.is_dir()):
            for file in sorted(folder.rglob("*.wav")):
                if file.stat().st_size >= SHORTEST:
                    yield Sample(language, str(file.relative_to(folder)), file)


@dataclass(frozen=True)
class Made:
    """How a set is made: its samples, and at most how many of a class are taken."""

    samples: Callable[[Path], Iterator[Sample]]
    most: int


SETS = {
    "clipart": Made(clipart, 400),
    "icons": Made(icons, 400),
    "terrain": Made(terrain, 300),
    "scripts": Made(scripts, 250),
    "prompts": Made(prompts, 500),
    "units": Made(units, 300),
    "emoji": Made(emoji, 400),
    "symbols": Made(symbols, 250),
}


def digest(text: str) -> int:
    """A number that a text decides, for order and splits that are the same everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def picture(file: Path) -> Image.Image | None:
    """An image on white, its longer side 64 pixels at most; None where it is a poster of more than 16 megapixels."""
    with Image.open(file) as opened:  # reads the size alone
        if opened.width * opened.height > MOST_PIXELS:
            return None
        shown = opened.convert("RGBA")
    white = Image.new("RGBA", shown.size, "white")
    white.alpha_composite(shown)
    white.thumbnail((SIDE, SIDE))
    return white.convert("RGB")


def drawn(letter: str, file: Path) -> Image.Image:
    """A letter in black on white, in the middle; of the font of emoji a picture in colour."""
    if "Emoji" in file.name:
        image = Image.new("RGB", (2 * STRIKE, 2 * STRIKE), "white")
        font = ImageFont.truetype(str(file), STRIKE)
        ImageDraw.Draw(image).text((STRIKE, STRIKE), letter, font=font, anchor="mm", embedded_color=True)
        box = ImageOps.invert(image).getbbox()
        image = image.crop(box)
        image.thumbnail((SIDE, SIDE))
        return ImageOps.pad(image, (SIDE, SIDE), color="white")
    image = Image.new("RGB", (LETTER, LETTER), "white")
    font = ImageFont.truetype(str(file), 20)
    ImageDraw.Draw(image).text((LETTER / 2, LETTER / 2), letter, fill="black", font=font, anchor="mm")
    return image


def pixels(source: Path | tuple[str, Path]) -> Image.Image | None:
    """The image of a sample that is no sound."""
    return drawn(*source) if isinstance(source, tuple) else picture(source)


def write(name: str, to: Path, packages: Path) -> dict[str, int]:
    """Write a set; split -> number of files. Files with equal bytes are written once."""
    made, seen = SETS[name], set()
    counts: dict[str, int] = defaultdict(int)
    taken: dict[str, int] = defaultdict(int)
    ordered = sorted(made.samples(packages), key=lambda one: (digest(f"{one.group}"), str(one.source)))
    partial = to / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for sample in ordered:
        if taken[sample.label] == made.most:
            continue
        sound = isinstance(sample.source, Path) and sample.source.suffix == ".wav"
        image = None if sound else pixels(sample.source)
        if image is None and not sound:
            continue
        content = image.tobytes() if image is not None else Path(str(sample.source)).read_bytes()
        if (key := hashlib.sha256(content).digest()) in seen:
            continue
        seen.add(key)
        taken[sample.label] += 1
        split = "test" if digest(f"{sample.group} split") % TEST_SHARE == 0 else "train"
        counts[split] += 1
        folder = partial / split / sample.label
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{taken[sample.label]:04d}"
        if image is not None:
            image.save(target.with_suffix(".png"))
        else:
            shutil.copyfile(str(sample.source), target.with_suffix(".wav"))
    partial.rename(to / name)
    return {**counts, "classes": len(taken)}


def main() -> None:
    """Write what is asked for, and print what was written."""
    Image.MAX_IMAGE_PIXELS = None  # posters are left out by their size, without a warning
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="folder that gets a folder for each set")
    parser.add_argument("--packages", type=Path, default=None, help="folder of packages; TO/packages by default")
    parser.add_argument("--sets", default=",".join(SETS), help="names, by commas")
    options = parser.parse_args()
    packages = options.packages or options.to / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for name in options.sets.split(","):
        if (options.to / name).exists():
            print(f"{name}: is there")
            continue
        print(f"{name}: {write(name, options.to, packages.resolve())}", flush=True)


if __name__ == "__main__":
    main()
