"""The documentation is true: its examples run, its paths exist, its tables hold every row of ours and no other."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from evodevo.cli.application import app, run
from evodevo.errors import ExitCode
from evodevo.evolution.base import ALGORITHMS
from evodevo.objectives.base import OBJECTIVES
from evodevo.recipes.base import RECIPES
from evodevo.registry import TABLES
from evodevo.spaces.base import SPACES
from evodevo.spaces.classes import OPERATORS, liv_classes
from evodevo.tasks.base import TASKS

if TYPE_CHECKING:
    from .conftest import Small

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE_ROW = re.compile(r"^\| `?([^|`]+?)`? \|", re.MULTILINE)
# Slow, or of another kind; their own tests run them.
ELSEWHERE = {"demo"}
# What a page may say with a large number is run with a small one.
SMALLER = {"--tokens": "512", "--population": "4", "--generations": "2", "--seeds": "2", "--size": "quick"}


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


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(blocks(page, "python")))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


CASES = [(page, words) for page in PAGES for words in commands(page) if words[0] not in ELSEWHERE]


@pytest.mark.parametrize(("page", "words"), CASES, ids=[f"{page.stem}: {' '.join(words)}" for page, words in CASES])
def test_the_commands_of_a_page_run(
    page: Path,
    words: list[str],
    small: Small,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(small.store, tmp_path / "runs")
    (tmp_path / "run.toml").write_text("")
    assert run(stand_ins(words, small)) == ExitCode.SUCCESS, capsys.readouterr().err


def stand_ins(words: Sequence[str], small: Small) -> list[str]:
    """The command with real ids for RUN and INDIVIDUAL, and less work to do."""
    from evodevo.runs import Archive

    with Archive(small.store) as archive:
        found = archive.run(small.run)
        front = found.front()
        real = {"RUN": found.id, "INDIVIDUAL": front[0].id, "OTHER": found.baselines()[0].id}
    done: list[str] = []
    for word in words:
        if word == ">":  # the test has no shell
            break
        last = done[-1] if done else ""
        done.append(SMALLER.get(last) or (str(small.text) if last == "--data" else real.get(word, word)))
    if done[0] == "evolve":
        done += [] if "--data" in done else ["--data", str(small.text)]
        # The page's own settings lie above the small file's, as --set does.
        done = [word for word in done if word not in ("--config", "run.toml")] + ["--config", str(small.config)]
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
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{name(page)} links to {link}"


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
        (ALGORITHMS, "docs/evolve.md", "Algorithms"),
        (OBJECTIVES, "docs/evolve.md", "Objectives"),
        (OPERATORS, "docs/genome.md", "Classes"),
        (RECIPES, "docs/evolve.md", "Recipes and settings"),
        (SPACES, "docs/concepts.md", "Spaces"),
        (TASKS, "docs/concepts.md", "Tasks"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_every_row_of_a_table_is_documented(table: Any, page: str, heading: str) -> None:
    documented = set(rows(page, heading))
    missing = [row for row in table.names() if row not in documented]
    assert not missing, f"{page}, {heading}: no row for the {table.kind} {', '.join(missing)}"


def test_every_table_of_ours_has_a_page_or_needs_none() -> None:
    documented = {"algorithms", "objectives", "operators", "recipes", "spaces", "tasks"}
    internal = {"evaluators", "executors"}  # chosen by settings, not by users' files
    assert {group.removeprefix("evodevo.") for group in TABLES} <= documented | internal


def test_the_table_of_classes_is_exact() -> None:
    text = (ROOT / "docs" / "genome.md").read_text()
    found = {
        label: (int(number), family, genome)
        for label, number, family, genome in re.findall(
            r"^\| `([\w-]+)` \| (\d+) \| (\w+) \| ([\d.]+) \|", text, re.MULTILINE
        )
    }
    from evodevo.spaces.text import print_segments

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

    from evodevo.evaluation.base import INFEASIBLE
    from evodevo.execution.base import Reason

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
