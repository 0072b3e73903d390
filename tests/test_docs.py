"""The documentation is true: its examples run, its paths exist, its tables hold every row of ours and no other."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from evodevo.cli.application import app, run
from evodevo.errors import ExitCode
from evodevo.execution.serial import SerialExecutor
from evodevo.experiments.procedures import PROCEDURES
from evodevo.export.base import EXPORTERS
from evodevo.export.models.base import MODEL_EXPORTERS
from evodevo.growth.growable import GROWABLES
from evodevo.growth.in_place.base import EDITS
from evodevo.growth.recipes.growing import RACE_THEN_GROW, growth_of_new_runs
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.base import STRATEGISTS
from evodevo.h_model.aggregations.base import AGGREGATIONS, AggregationSpec
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.nodes.base import NODES
from evodevo.module_zoo.modules.zoo import ARCHETYPES
from evodevo.module_zoo.spec import ZooStructure
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.agents.multipath import MultipathOptions
from evodevo.multitask.hyperparameters import singlepath_hyperparameters
from evodevo.multitask.paths.kinds import KINDS
from evodevo.multitask.settings import SystemSettings
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.objectives.base import OBJECTIVES
from evodevo.operators.classes import OPERATORS, liv_classes
from evodevo.operators.kernels.table import KERNELS
from evodevo.operators.layers.base import LAYERS
from evodevo.registry import TABLES
from evodevo.runs.recipe import RECIPES
from evodevo.search.base import ALGORITHMS
from evodevo.settings import Settings, merge, renewed, validate
from evodevo.tasks.base import TASKS

if TYPE_CHECKING:
    from evodevo.cli.stopping import Stoppable, Stopping

    from .conftest import Small, Systems

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "spec").glob("*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE_ROW = re.compile(r"^\| `?([^|`]+?)`? \|", re.MULTILINE)
# Slow, or of another kind; their own tests run them.
ELSEWHERE = {"demo"}
ELSEWHERE_RECIPES = {"multitask.characters", "multitask.multipath"}
# Commands that train what their first argument names.
TRAINING = {"ablate", "evolve", "grow", "resume", "train"}
# What a page may say with a large number is run with a small one.
SMALLER = {
    "--tokens": "512",
    "--steps": "2",
    "--population": "4",
    "--generations": "2",
    "--seeds": "2",
    "--size": "quick",
    "--samples": "64",
    "--budget": "2steps",
    "--baselines": "none",
    "--cycles": "2",
}
# Pages whose RUN is an experiment and whose INDIVIDUAL is an H-Model.
OF_NETWORKS = {"h-model", "experiments", "tasks"}
# Pages whose RUN is an experiment and whose INDIVIDUAL is a zoo of modules.
OF_ZOOS = {"module-zoo"}
# Likewise, of a zoo that grew; so are all that follow these commands.
OF_GROWN = {"growth"}
GROWS = {"grow", "replay"}
# Pages about the system ``zoo``.
PHOTOS = "photos/"
"""Folder of images in the pages."""
OF_SYSTEMS = {"extend"}
# Commands about the small system of that name.
OF_GALLERY = {"gallery"}
BRIEF = """
[evaluation]
training.budget.steps = 2
training.batch_size = 4
validation_samples = 16
test_samples = 16
curve_points = 1
curve_samples = 16
trace_samples = 8

[execution]
executor = "serial"
"""
BRIEF_GROWTH = """
[grow]
events = {count = 2, first = 0.3, last = 0.6, warm = 0.3, horizon = 0.3}
fitness.samples = 16
"""
GROWING = "20steps"
"""The budget of a growth that a page tells of."""
FORKING = "40Mflops"
"""About the same, where it forks."""
FORKED = ("module_zoo.race_then_grow",)
"""Recipes that fork by themselves."""
BRIEF_SEARCH = "study = {population = 2, generations = 1, confirmations = 0}"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in FENCE.findall(page.read_text(encoding="utf-8")) if found == language]


def rows(page: str, heading: str) -> list[str]:
    """First cells of the first table under a heading."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (part,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return [cell.strip() for cell in TABLE_ROW.findall(part) if not set(cell) <= set("-: ")][1:]


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every ``$ evodevo …`` line."""
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ evodevo "):
                yield shlex.split(line.removeprefix("$ evodevo "), comments=True)


# Examples


# One page after the other in a process of their own, since they add rows to the tables; each in its own folder and
# with a fresh ``__main__``.
RUN_PAGES = """
import os, runpy, sys
for folder in sys.argv[1:]:
    os.chdir(folder)
    print("page", folder, file=sys.stderr)
    runpy.run_path("page.py", run_name="__main__")
"""


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]


@pytest.mark.slow
@pytest.mark.parametrize("pages", [WITH_PYTHON[::2], WITH_PYTHON[1::2]], ids=lambda pages: ", ".join(map(name, pages)))
def test_the_python_of_each_page_runs_from_top_to_bottom(pages: list[Path], tmp_path: Path) -> None:
    folders = []
    for page in pages:
        folder = tmp_path / page.stem
        folder.mkdir()
        (folder / "page.py").write_text("\n\n".join(blocks(page, "python")))
        folders.append(folder)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_PAGES, *folders], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def is_about_zoos(page: Path, words: Sequence[str]) -> bool:
    return page.stem in OF_ZOOS or words[0] == "predict" or bool(words[1:2] and words[1].startswith("module_zoo."))


CASES = [
    (page, words)
    for page in PAGES
    for words in commands(page)
    if words[0] not in ELSEWHERE and not ELSEWHERE_RECIPES.intersection(words)
]


def what_it_trains(words: Sequence[str]) -> tuple[str, ...]:
    """The command and its recipe, run or system; empty for commands that train nothing."""
    command = tuple(words[:3] if words[0] == "extend" else words[:2])
    return command if command[0] in TRAINING or command[:2] == ("extend", "run") else ()


def cases() -> list[Any]:
    """Pages, commands, and whether a command is run to its end.

    Of the commands that train the same thing the first is run to its end; of the others it is enough that they begin:
    all that a page can have wrong (settings, data, names) is read before that.
    """
    found: list[Any] = []
    trained: set[tuple[str, ...]] = set()
    for page, words in CASES:
        trains = what_it_trains(words)
        marks = [pytest.mark.slow] if trains and trains not in trained else []
        found.append(
            pytest.param(page, words, trains not in trained, id=f"{page.stem}: {' '.join(words)}", marks=marks)
        )
        trained.update([trains] if trains else [])
    return found


@dataclass(frozen=True)
class Brief:
    """A store with one experiment of a few steps, and settings for another one."""

    folder: Path
    run: str
    h_model: str
    other: str

    @property
    def store(self) -> Path:
        return self.folder / "runs"

    @property
    def data(self) -> Path:
        """Two languages, one folder each; of zoos a table."""
        texts = self.folder / "texts"
        return texts if texts.exists() else self.folder / "posts.csv"

    def data_of(self, words: Sequence[str]) -> Path:
        """Data with the columns that the command names."""
        given = words[words.index("--data") + 1] if "--data" in words else ""
        if given == PHOTOS:
            return Path(PHOTOS)
        named = self.folder / Path(given).name
        return named if named.is_file() else self.data

    def config(self, driver: str) -> Path:
        return self.folder / f"{driver}.toml"


@pytest.fixture(scope="session")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Brief:
    folder = tmp_path_factory.mktemp("brief")
    (folder / "train.toml").write_text(BRIEF)
    (folder / "evolve.toml").write_text(f"{BRIEF_SEARCH}\n{BRIEF}")
    for language, word in (("one", "abc "), ("two", "xyz ")):
        (folder / "texts" / language).mkdir(parents=True)
        for number in range(40):
            (folder / "texts" / language / f"{number}.txt").write_text(f"{word * 150}{number}")
    pairs = [{name: f"{name} {number} " * 300 for name in ("en", "de", "fr")} for number in range(40)]
    (folder / "pairs.csv").write_text("\n".join([",".join(pairs[0]), *(",".join(pair.values()) for pair in pairs)]))
    asked = [
        (f"Fact {number}.", f"Is it {depth}?", "yes" if depth else "no", depth)
        for number in range(40)
        for depth in (0, 1)
    ]
    lines = [json.dumps(dict(zip(("context", "question", "answer", "depth"), one, strict=True))) for one in asked]
    (folder / "theories.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    store = folder / "runs"
    assert run(["train", "h_model.pointer", "--config", str(folder / "train.toml"), "--store", str(store)]) == 0
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        found = archive.run("last")
        of_role = {one.genome.role: one.id for one in found.individuals()}
        return Brief(folder, found.id, of_role["h_model"], of_role["transformer"])


@pytest.fixture(scope="session")
def zoo_brief(brief: Brief, tmp_path_factory: pytest.TempPathFactory) -> Brief:
    """As ``brief``, with a zoo that reads a table of images and texts."""
    import csv

    import numpy as np
    from PIL import Image

    folder = tmp_path_factory.mktemp("zoo")
    for driver in ("train", "evolve"):
        shutil.copy(brief.config(driver), folder)
    with (folder / "posts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "image_path", "caption", "class"))
        for number in range(40):
            pixels = np.full((4, 4), 6 * number, np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
            name = f"{number}.png"
            writer.writerow((name, name, f"number {number}", "odd" if number % 2 else "even"))
    return of_posts(folder, "train")


@pytest.fixture(scope="session")
def grown_brief(zoo_brief: Brief, tmp_path_factory: pytest.TempPathFactory) -> Brief:
    """As ``zoo_brief``, with a zoo that grew."""
    folder = tmp_path_factory.mktemp("grown") / "zoo"
    shutil.copytree(zoo_brief.folder, folder, ignore=shutil.ignore_patterns("runs"))
    training = BRIEF.replace("budget.steps = 2", f"budget.steps = {GROWING.removesuffix('steps')}")
    (folder / "grow.toml").write_text(f"{training}\n{BRIEF_GROWTH}")
    return of_posts(folder, "grow")


def of_posts(folder: Path, command: str) -> Brief:
    """An experiment with the table in this folder, and its first individual."""
    columns = ["--set", "image=path", "--set", "text=caption", "--set", "label=class"]
    columns += ["--strategist", "ppo", "--set", "zoo.width=16"] if command == "grow" else []
    begin = [command, "module_zoo.classifier", "--data", str(folder / "posts.csv"), *columns, "--baselines", "none"]
    store = folder / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        assert run([*begin, "--config", str(folder / f"{command}.toml"), "--store", str(store)]) == 0
    from evodevo.runs.archive import Archive

    with Archive(store) as archive:
        found = archive.run("last")
        one = found.individuals()[0].id
        return Brief(folder, found.id, one, one)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "words", "whole"), cases())
def test_the_commands_of_a_page_run(
    page: Path,
    words: list[str],
    whole: bool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if words[0] == "fit" or words[1:2] in (["my_model"], ["my_photos"]):
        monkeypatch.setattr("evodevo.estimators.automatic.candidates.boosting.MOST_ITERATIONS", 10)
        done = on_rows(words, tmp_path)
    elif page.stem in OF_SYSTEMS or words[0] == "extend":
        done = on_systems(words, request.getfixturevalue("systems"), tmp_path, monkeypatch)
        if words[:2] == ["extend", "import"]:
            shutil.copytree(request.getfixturevalue("small").store, tmp_path / "other")
    else:
        done = on_runs(page, words, request, tmp_path, monkeypatch)
    if not whole:
        monkeypatch.setattr("evodevo.cli.stopping.Stopping.begin", _interrupt)
    assert run(done) == (ExitCode.SUCCESS if whole else ExitCode.INTERRUPTED), capsys.readouterr().err


def on_rows(words: Sequence[str], folder: Path) -> list[str]:
    """A command about rows of the user's own, with a short time and plain models alone."""
    lines = [
        f"{'odd' if number % 2 else 'even'},a {'fine' if number % 2 else 'dull'} post {number},{number}"
        for number in range(40)
    ]
    for name in ("posts.csv", "later.csv", "new.csv"):
        (folder / name).write_text("class,text,likes\n" + "\n".join(lines))
    houses = [f"{number % 5},{50 + 7 * (number % 9)},{1000 * number + 300 * (number % 5)}" for number in range(40)]
    (folder / "houses.csv").write_text("rooms,area,price\n" + "\n".join(houses))
    write_photos(folder / PHOTOS)
    if "my_tower" in words:
        save_text_tower(folder / "my_tower")
    if words[0] != "fit":
        write_photos(folder / "new_photos")
        given = [PHOTOS] if words[1] == "my_photos" else ["posts.csv", "--label", "class"]
        assert run(["fit", *given, "--to", words[1], "--no-networks"]) == 0
        return list(words)
    return [*words[: words.index("--time-limit")], "--no-networks", *words[words.index("--time-limit") + 2 :]]


def write_photos(folder: Path) -> None:
    """Six images of each of two classes."""
    from PIL import Image

    for place, kind in enumerate(("night", "day")):
        (folder / kind).mkdir(parents=True)
        for number in range(6):
            Image.new("L", (4, 4), 200 * place + number).save(folder / kind / f"{number}.png")


def _interrupt(stopping: Stopping, session: Stoppable) -> None:
    """Ctrl-C where the training would begin."""
    raise KeyboardInterrupt


def on_systems(words: Sequence[str], systems: Systems, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As ``stand_ins``, for commands about the system ``zoo``; its store lies in the folder, children train here."""
    monkeypatch.setattr("evodevo.multitask.run.run.create_executor", lambda settings, preload: SerialExecutor())
    monkeypatch.setenv("XDG_CACHE_HOME", str(systems.grown.parent / "cache"))
    if words[:2] != ["extend", "create"] or "--beside" in words:
        shutil.copytree(systems.bare if words[:2] == ["extend", "add"] else systems.grown, folder / "runs")
    shutil.copy(systems.images / "odd" / "0.png", folder / "a.png")
    real = {"letters": "digits"} if words[0] == "predict" else {}  # the task of a system that has answers
    done = replaced(words, real, systems.images)
    # A child has 500 steps at least, and a shorter budget is refused.
    return ["100000steps" if before == "--budget" else word for before, word in zip(["", *done], done, strict=False)]


def on_runs(
    page: Path, words: list[str], request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The command on a copy of a store with the kind of run that the page is about, in the folder."""
    small, brief, zoo_brief = (request.getfixturevalue(name) for name in ("small", "brief", "zoo_brief"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    zoos = is_about_zoos(page, words)
    networks = page.stem in OF_NETWORKS or words[0] == "trace" or (words[1:2] and words[1].startswith("h_model."))
    grows = page.stem in OF_GROWN or words[0] in GROWS
    of = request.getfixturevalue("grown_brief") if grows else zoo_brief if zoos else brief if networks else None
    gallery: Path | None = request.getfixturevalue("gallery") if OF_GALLERY.intersection(words) else None
    shutil.copytree(gallery or (of.store if of else small.store), tmp_path / "runs")
    shutil.copy(zoo_brief.folder / "0.png", tmp_path / "a.png")
    (tmp_path / "run.toml").write_text("")
    (tmp_path / "questions.jsonl").write_text('{"question": "def f", "choices": ["(x):", "nothing"], "answer": 0}')
    if PHOTOS in words:
        write_photos(tmp_path / PHOTOS)
    if any(word.endswith("path=vit") for word in words):
        save_tower(tmp_path / "vit")
    return words if gallery else network_stand_ins(words, of) if of else stand_ins(words, small)


def save_tower(folder: Path) -> None:
    """A vision transformer with random weights."""
    transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.utils.logging.disable_progress_bar()
    transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **sizes)).save_pretrained(folder)
    transformers.utils.logging.enable_progress_bar()


def save_text_tower(folder: Path) -> None:
    """A BERT with random weights that reads words."""
    transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
    import tokenizers

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.utils.logging.disable_progress_bar()
    transformers.BertModel(transformers.BertConfig(vocab_size=4, **sizes)).save_pretrained(folder)
    transformers.utils.logging.enable_progress_bar()
    words = tokenizers.models.WordLevel({"[UNK]": 0, "fine": 1, "dull": 2, "post": 3}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")


def network_stand_ins(words: Sequence[str], brief: Brief) -> list[str]:
    """As ``stand_ins``, for commands about networks of samples."""
    real = {"RUN": brief.run, "INDIVIDUAL": brief.h_model, "OTHER": brief.other}
    real["domain"] = "hops"  # the brief run is on pointers, whose fact that is
    done = replaced(words, real, brief.data_of(words))
    if done[0] == "grow":  # events want steps of their own
        by_default = done[1] == "module_zoo.classifier" and "--strategist" not in done
        forks = done[1] in FORKED or by_default or any(".forks." in word for word in done)
        amount = FORKING if forks else GROWING
        done += ["--budget", amount] if forks and "--budget" not in done else []
        done = [amount if before == "--budget" else word for before, word in zip(["", *done], done, strict=False)]
        done += ["--set", "zoo.width=16"] if done[1].startswith("module_zoo.") else []
        if done[1].startswith("backbone.") and "--data" in done:
            del done[(at := done.index("--data")) : at + 2]  # of texts, and the brief one's is a table
    if len(done) > 1 and done[0] in ("evolve", "train", "grow") and done[1] in RECIPES:
        done = [word for word in done if word not in ("--config", "run.toml")]
        done += ["--config", str(brief.config(done[0]))]
    if done[1:2] == ["module_zoo.classifier"] and "--baselines" not in done:
        done += ["--baselines", "none"]  # searches want more steps than a page's test has
    return done


def stand_ins(words: Sequence[str], small: Small) -> list[str]:
    """The command with real ids for RUN and INDIVIDUAL, and less work to do."""
    from evodevo.runs.archive import Archive

    with Archive(small.store) as archive:
        found = archive.run(small.run)
        front = found.front()
        real = {"RUN": found.id, "INDIVIDUAL": front[0].id, "OTHER": found.baselines()[0].id}
    done = replaced(words, real, small.text)
    if done[0] == "evolve" or (done[0] == "train" and done[1] not in real.values()):
        done += [] if "--data" in done else ["--data", str(small.text)]
        # The page's own settings lie above the small file's, as --set does.
        done = [word for word in done if word not in ("--config", "run.toml")] + ["--config", str(small.config)]
    return done


def replaced(words: Sequence[str], real: Mapping[str, str], data: Path) -> list[str]:
    """The words up to a redirection, with these ids and data, and smaller numbers."""
    done: list[str] = []
    for word in words:
        if word == ">":  # the test has no shell
            break
        last = done[-1] if done else ""
        done.append(SMALLER.get(last) or (str(data) if last == "--data" else real.get(word, word)))
    return done


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_make_target_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for block in blocks(page, "console"):
        for line in re.findall(r"^\$ make ([^#\n]+)", block, re.MULTILINE):
            for target in line.split():
                assert "=" in target or re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_toml_is_toml(page: Path) -> None:
    for block in blocks(page, "toml"):
        tomllib.loads(block)


# Paths, links, options


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_and_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), f"{name(page)} names {path}"
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{name(page)} links to {link}"
            assert not anchor or anchor in anchors(target), f"{name(page)} links to {link}: no such heading"


def anchors(page: Path) -> set[str]:
    """Fragments of a page's headings as GitHub makes them: small letters, spaces as hyphens, no punctuation."""
    outside = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", outside, re.MULTILINE):
        plain = re.sub(r"\]\([^)]*\)", "", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = next(
            count for count in range(len(found) + 1) if (f"{anchor}-{count}" if count else anchor) not in found
        )
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


# Citations of the specifications in source

SOURCES = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
CITATION = re.compile(r"docs/spec/([\w-]+\.md)(#[\wµ-]*)?")
OTHER_FORMS = re.compile(
    r"(?<!docs/)\bspec/\w+|(?<!docs/spec/)\b(?:star|munet|routing|platform|search|donor|stack)\.md\b|\bDESIGN\b"
    r"|\bshared/|\b[Ss]pec(?:ification)?s?,? (?:part |section |row |checks? |Part )?\(?[A-E]?\d|\b[Cc]hecks? \d"
    r"|\b[Ii]ssue,? (?:\d|section|part)|\bthe issue\b|\bAppendix [AB]\b|\b[ACE]\d{1,2}\b"
)
"""What a citation may not look like: another page, a number of an issue or of a check, a code without a target."""
ABLATION_CODES = re.compile(r"``[A-D]\d+``")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of comments and docstrings with their numbers; none of a file in which no other form is anywhere."""
    if not OTHER_FORMS.search(path.read_text(encoding="utf-8")):
        return
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            docstring = token.type == tokenize.STRING and token.string.startswith('"""')
            if token.type == tokenize.COMMENT or docstring:
                yield from enumerate(token.string.splitlines(), token.start[0])


def test_every_benchmark_is_listed() -> None:
    folder = ROOT / "benchmarks"
    named = set(re.findall(r"`([\w/]+\.py)`", (folder / "README.md").read_text()))
    assert named == {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}


def test_every_citation_of_a_specification_names_a_page_and_a_heading() -> None:
    pages = {page.name: anchors(page) for page in (ROOT / "docs" / "spec").glob("*.md")}
    wrong, count = [], 0
    for path in SOURCES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for page, anchor in CITATION.findall(line):
                count += 1
                if page not in pages or (anchor and anchor[1:] not in pages[page]):
                    wrong.append(f"{name(path)}:{number}: docs/spec/{page}{anchor}")
    assert not wrong, "\n".join(wrong)
    assert count > 200, "citations have another form than the one that this test reads"


@pytest.mark.slow
def test_specifications_are_cited_in_one_form() -> None:
    other = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in prose(path)
        if OTHER_FORMS.search(ABLATION_CODES.sub("", line))
    ]
    assert not other, "\n".join(other)


def test_every_specification_is_cited() -> None:
    cited = {page for path in SOURCES for page, _ in CITATION.findall(path.read_text(encoding="utf-8"))}
    assert {page.name for page in (ROOT / "docs" / "spec").glob("*.md")} <= cited


def options_of(command: Any) -> set[str]:
    found = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for inner in getattr(command, "commands", {}).values():
        found |= options_of(inner)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_option_named_exists(page: Path) -> None:
    known = options_of(typer.main.get_command(app)) | {"--help"}
    named = set(re.findall(r"`(--[a-z-]+)", page.read_text(encoding="utf-8")))
    assert named <= known


# Tables


@pytest.mark.parametrize(
    ("table", "page", "heading"),
    [
        (AGGREGATIONS, "docs/h-model.md", "Aggregations"),
        (ALGORITHMS, "docs/evolve.md", "Algorithms"),
        (ARCHETYPES, "docs/module-zoo.md", "Families"),
        (AGENTS, "docs/extend.md", "Classes of agents"),
        (EXPORTERS, "docs/export.md", "Formats of paths"),
        (MODEL_EXPORTERS, "docs/export.md", "Export an individual"),
        (GROWABLES, "docs/growth.md", "What can grow"),
        (EDITS, "docs/growth.md", "Edits in place"),
        (KINDS, "docs/extend.md", "Kinds of paths"),
        (OBJECTIVES, "docs/evolve.md", "Objectives"),
        (LAYERS, "docs/h-model.md", "Layers"),
        (NODES, "docs/module-zoo.md", "Nodes"),
        (OPERATORS, "docs/genome.md", "Classes"),
        (PROCEDURES, "docs/experiments.md", "Procedures"),
        (KERNELS, "docs/gpu.md", "Kernels"),
        (STRATEGISTS, "docs/growth.md", "Strategists"),
        (TASKS, "docs/concepts.md", "Tasks"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_every_row_of_a_table_is_documented(table: Any, page: str, heading: str) -> None:
    documented = set(rows(page, heading))
    ours = [row for row in table.names() if not row.startswith("testing.")]  # other tests add rows of their own
    missing = [row for row in ours if row not in documented]
    assert not missing, f"{page}, {heading}: no row for the {table.kind} {', '.join(missing)}"


@pytest.mark.parametrize(
    ("driver", "page", "heading"),
    [
        ("evolve", "docs/evolve.md", "Recipes and settings"),
        ("train", "docs/experiments.md", "Recipes"),
        ("extend", "docs/extend.md", "Proof"),
    ],
)
def test_every_recipe_is_documented_where_its_command_is(driver: str, page: str, heading: str) -> None:
    found = {name for name in rows(page, heading) if name in RECIPES}
    assert found == {name for name in RECIPES if driver in RECIPES.get(name).drivers}


def test_every_table_of_ours_has_a_page_or_needs_none() -> None:
    documented = {
        "aggregations",
        "algorithms",
        "archetypes",
        "exporters",
        "layers",
        "objectives",
        "operators",
        "procedures",
        "recipes",
    }
    documented |= {
        "agents",
        "around",
        "edits",
        "growables",
        "kernels",
        "model_exporters",
        "path_kinds",
        "strategists",
        "tasks",
        "zoo_nodes",
    }
    # Chosen by settings or found in a model's own file, not by users' files.
    internal = {"evaluators", "executors", "fitted_models", "networks", "slices"}
    assert {group.removeprefix("evodevo.") for group in TABLES} <= documented | internal


def fields(model: Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its dotted name, and its value."""
    for key in type(model).model_fields:
        value = getattr(model, key)
        if isinstance(value, AggregationSpec):
            yield prefix + key, value.kind
        elif isinstance(value, Settings):
            yield from fields(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def shown(value: Any) -> str:
    """A default as the page writes it."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if value is None or value == ():
        return "–"
    return f"{len(value)} of `transformer`" if isinstance(value, tuple) else f"`{value}`"


def test_every_setting_of_an_h_model_is_documented_with_its_default() -> None:
    text = (
        (ROOT / "docs" / "h-model.md").read_text(encoding="utf-8").partition("\n## Settings\n")[2].partition("\n## ")[0]
    )
    found = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+?) \|", text, re.MULTILINE))
    ours = {key: shown(value) for key, value in fields(HModelStructure())}
    assert found == ours


def test_every_setting_of_a_zoo_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "module-zoo.md").read_text(encoding="utf-8")
    table = text.partition("\n## Settings\n")[2].partition("\n## ")[0]
    found = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+?) \|", table, re.MULTILINE))
    assert found == {key: "–" if value == {} else shown(value) for key, value in fields(ZooStructure())}


def test_every_setting_of_growth_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "growth.md").read_text(encoding="utf-8")
    table = text.partition("\n## Settings\n")[2].partition("\n## ")[0]
    table, _, beside = table.partition("\nThese are the defaults of ")
    found = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+?) \|", table, re.MULTILINE))
    usual, former = renewed(GrowthSettings()), GrowthSettings()
    listed = {"allow": f"`{', '.join(usual.allow)}`"}
    assert found == {key: shown(value) for key, value in fields(usual)} | listed
    # Beside it, what stored runs and the paper have otherwise.
    other = {key: value for key, value in fields(former) if dict(fields(usual))[key] != value and key != "allow"}
    raced, _, beside = beside.partition("\n| former default |")
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (`[^`]+`)[^|]*\|$", beside, re.MULTILINE))
    assert rows == {key: shown(value) for key, value in other.items()} | {"allow": f"`{', '.join(former.allow)}`"}
    # And what new runs have where nobody names a strategist.
    default = validate(GrowthSettings, merge(growth_of_new_runs(), dict(RACE_THEN_GROW)), what="race, then grow")
    other = {key: value for key, value in fields(default) if dict(fields(usual))[key] != value and key != "allow"}
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (`[^`]+`) \|$", raced, re.MULTILINE))
    assert rows == {key: shown(value) for key, value in other.items()} | {"allow": f"`{', '.join(default.allow)}`"}


@pytest.mark.parametrize(
    ("heading", "settings"),
    [
        ("Settings", SystemSettings()),
        ("Training", PathTrainingSettings()),
        ("Options", MultipathOptions()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_setting_of_a_system_is_documented_with_its_default(heading: str, settings: Settings) -> None:
    text = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    table = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+?) \|", table, re.MULTILINE))
    ours = dict(fields(settings))
    names = {key: f"`{', '.join(value)}`" for key, value in ours.items() if isinstance(value, tuple) and value}
    assert found == {key: "–" if value == {} else shown(value) for key, value in ours.items()} | names


def test_every_hyperparameter_of_a_path_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8").partition("\n## Hyperparameters\n")[2]
    found = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", text, re.MULTILINE))
    assert found == {row.key: shown(row.default) for row in singlepath_hyperparameters("ti3").rows}


@pytest.mark.parametrize("task", [task for task in TASKS if task != "language"])
def test_every_setting_of_a_task_is_documented(task: str) -> None:
    documented = set(rows("docs/tasks.md", f"`{task}`"))
    names = {key for key, _ in fields(TASKS.get(task).settings_class())}
    wholes = {key for key in names for row in documented if key.startswith(f"{row}.")}
    assert names - wholes <= documented, f"docs/tasks.md, {task}: no row for {', '.join(names - wholes - documented)}"
    assert documented <= names | {key.rpartition(".")[0] for key in names}


def test_the_table_of_classes_is_exact() -> None:
    text = (ROOT / "docs" / "genome.md").read_text()
    found = {
        label: (int(number), family, genome)
        for label, number, family, genome in re.findall(
            r"^\| `([\w-]+)` \| (\d+) \| (\w+) \| ([\d.]+) \|", text, re.MULTILINE
        )
    }
    from evodevo.operators.genome_text import print_segments

    ours = {row.name: (row.number, row.spec.family, print_segments([row.operator])) for row in liv_classes().values()}
    assert found == ours


def test_every_command_is_documented() -> None:
    ours = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert set(rows_before("docs/command-line.md")) == ours


def rows_before(page: str) -> list[str]:
    """First cells of the first table of a page."""
    head = (ROOT / page).read_text(encoding="utf-8").partition("\n## ")[0]
    return [cell for cell in TABLE_ROW.findall(head) if not set(cell) <= set("-: ")][1:]


def test_every_exit_code_is_documented() -> None:
    assert [int(code) for code in rows("docs/command-line.md", "Exit codes")] == [int(code) for code in ExitCode]


def test_every_reason_of_a_failure_is_documented() -> None:
    from typing import get_args

    from evodevo.execution.base import Reason
    from evodevo.search.problem import INFEASIBLE

    assert {INFEASIBLE, "nan", "diverged", *get_args(Reason)} == set(rows("docs/concepts.md", "Failures are results"))


def test_every_event_is_documented(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    assert small.evolve(tmp_path / "runs", "--json", "--generations", "1") == ExitCode.SUCCESS
    seen = {json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()}
    assert seen <= set(rows("docs/evolve.md", "While it runs"))


def test_every_extra_named_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES:
        for extra in re.findall(r"evodevo\[(\w+)\]", page.read_text(encoding="utf-8")):
            assert extra in extras, f"{name(page)} names the extra {extra}"


MODULE = re.compile(r"``((?:[a-z]\w*/)+\w+\.py|(?:[a-z]\w*\.)+\w+)``")
SOURCE = ROOT / "src" / "evodevo"
ROOMS = {path.stem for path in SOURCE.iterdir()}
KEYS = {"evaluation.options.grow"}
"""Settings whose keys look like modules; names of recipes do, too."""
RETIRED = {"spaces", "models", "evaluation", "evolution", "routing", "strategist", "diagrams"}
"""Folders of the package before the papers had folders of their own."""


def module_is_there(named: str) -> bool:
    """Whether a path or dotted name of a docstring begins with a file of the package; the rest is what it holds."""
    if named.endswith(".py"):
        return (SOURCE / named).is_file()
    parts = named.split(".")
    files = [SOURCE.joinpath(*parts[:end]) for end in range(1, len(parts) + 1)]
    return any(file.with_suffix(".py").is_file() for file in files) or files[-1].is_dir()


def test_modules_that_docstrings_name_are_there() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        for named in MODULE.findall(path.read_text(encoding="utf-8")):
            if named in KEYS or named in RECIPES:
                continue
            first = re.split(r"[./]", named)[0]
            if first in RETIRED or (first in ROOMS and "." in named and not module_is_there(named)):
                wrong.append(f"{path.relative_to(ROOT)}: {named}")
    assert not wrong, "\n".join(wrong)
