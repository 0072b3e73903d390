"""``evodevo extend create`` and ``add`` load no torch, whatever the data: they are done before torch would be there."""

from __future__ import annotations

import json
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evodevo.multitask.schedule import is_root
from evodevo.multitask.system import System
from evodevo.storage import Store

SEEN = """
import json, sys
from evodevo.cli.application import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted({name.split(".")[0] for name in sys.modules} & {"torch", "sklearn", "scipy"})]))
"""


def loaded(*words: str) -> list[str]:
    """Which heavy packages a successful command imported, in a process of its own."""
    ended = subprocess.run([sys.executable, "-c", SEEN, "extend", *words], capture_output=True, text=True, check=True)
    code, found = json.loads(ended.stdout.splitlines()[-1])
    assert code == 0, ended.stderr
    return list(found)


def images(place: Path) -> None:
    chance = np.random.default_rng(3)
    for name in ("a", "b"):
        (place / name).mkdir(parents=True)
        for number in range(10):
            Image.fromarray(chance.integers(0, 256, (6, 6), dtype=np.uint8)).save(place / name / f"{number}.png")


def table(place: Path) -> None:
    place.write_text("size,label\n" + "".join(f"{number * 7 % 31}.5,{'ab'[number % 2]}\n" for number in range(40)))


def texts(place: Path) -> None:
    place.write_text("text,label\n" + "".join(f"word {number},{'ab'[number % 2]}\n" for number in range(40)))


def sounds(place: Path) -> None:
    chance = np.random.default_rng(3)
    for name in ("a", "b"):
        (place / name).mkdir(parents=True)
        for number in range(10):
            with wave.open(str(place / name / f"{number}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(chance.integers(-9999, 9999, 4000).astype("<i2").tobytes())


def arrays(place: Path) -> None:
    np.savez(place, x=np.random.default_rng(3).integers(0, 256, (40, 6, 6), dtype=np.uint8), y=np.arange(40) % 2)


@pytest.mark.parametrize(
    ("name", "make", "class_of_root"),
    [("mine", images, "ConvSmall"), ("mine.csv", table, "ConvSmall"), ("t.csv", texts, "Text"), ("a.npz", arrays, "")],
    ids=["images", "table", "texts", "npz"],
)
def test_a_system_and_its_tasks_are_made_without_torch(
    name: str, make: object, class_of_root: str, tmp_path: Path
) -> None:
    assert callable(make)
    make(tmp_path / name)
    store = ["--store", str(tmp_path / "runs")]
    assert loaded("create", "zoo", *(["--class", class_of_root] if class_of_root else []), *store) == []
    assert loaded("add", "zoo", "mine", "--data", str(tmp_path / name), *store) == []


def test_texts_get_a_root_of_their_own_without_torch(tmp_path: Path) -> None:
    texts(tmp_path / "t.csv")
    store = ["--store", str(tmp_path / "runs")]
    assert loaded("create", "zoo", *store) == []
    assert loaded("add", "zoo", "mine", "--data", str(tmp_path / "t.csv"), *store) == []
    with Store.open(tmp_path / "runs") as opened:
        roots = [agent.kind for agent in System.open(opened, "zoo").agents() if is_root(agent)]
    assert roots == ["ConvSmall", "NgramSmall"]


def test_sounds_need_scipy_alone(tmp_path: Path) -> None:
    sounds(tmp_path / "words")
    store = ["--store", str(tmp_path / "runs")]
    assert loaded("create", "zoo", *store) == []
    assert loaded("add", "zoo", "mine", "--data", str(tmp_path / "words"), *store) == ["scipy"]


def test_digits_need_no_scikit_learn(tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "runs")]
    assert loaded("create", "zoo", *store) == []
    assert loaded("add", "zoo", "digits", *store) == []
