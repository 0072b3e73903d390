"""The commands that look: what they print for people, what they hand to programs, how they refuse."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.operators.spec import Dimensions
from evodevo.runs.archive import Archive

if TYPE_CHECKING:
    from ..conftest import Small
    from .conftest import Ask, Refuse


@pytest.mark.slow
def test_every_document_says_its_schema_and_people_see_tables(
    ask: Ask, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ask("pick", small.run)["id"]
    commands = {
        "status": ["status"],
        "front": ["front"],
        "pick": ["pick"],
        "individual": ["show", one],
        "run": ["show", "last"],
        "lineage": ["lineage", one],
        "diff": ["diff", one, one],
    }
    for name, arguments in commands.items():
        assert next(iter(ask(*arguments).items())) == ("schema", f"evodevo.{name}/{2 if name == 'pick' else 1}")
        assert run([*arguments, "--store", str(small.store)]) == ExitCode.SUCCESS
        shown = capsys.readouterr().out
        assert one in shown or small.run in shown or name == "diff"
        assert "Traceback" not in shown


def test_status_counts_what_is_there(ask: Ask, small: Small) -> None:
    (facts,) = ask("status")["runs"]
    told = [facts[name] for name in ("run", "kind", "recipe", "state")]
    assert told == [small.run, "evolve", "backbone.demo", "finished"]
    assert (facts["individuals"], facts["scored"], facts["generations"]) == (8, 8, 2)
    one = ask("status", "last")
    assert {key: one[key] for key in facts} == facts
    volumes = [row["hypervolume"] for row in one["course"]]
    assert volumes == sorted(volumes)
    assert one["hypervolume"] == volumes[-1]


def test_the_front_stands_beside_the_baselines(ask: Ask, small: Small) -> None:
    document = ask("front", small.run)
    assert {one["name"] for one in document["baselines"]} == {"transformer++", "striped-mamba"}
    assert document["front"]
    for one in document["front"] + document["baselines"]:
        fresh = one["fresh_seeds"]["quality"]
        assert fresh["seeds"] == 2
        assert fresh["low"] <= fresh["mean"] <= fresh["high"]


def test_any_unique_beginning_names_a_run_and_that_of_several_ids_is_refused(
    ask: Ask, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("show", small.run[:5]) == ask("show", small.run) == ask("show", "last")
    ids = [one["id"] for one in ask("show", small.run)["individuals"]]
    shared = next((a[0] for a in ids if sum(b.startswith(a[0]) for b in ids) > 1), None)
    if shared is not None:  # by chance no two ids begin alike
        assert run(["show", shared, "--store", str(small.store)]) == ExitCode.USAGE
        assert shared in capsys.readouterr().err


def test_pick_says_why_and_compares(ask: Ask, small: Small) -> None:
    front = ask("front", small.run)["front"]
    best = min(front, key=lambda one: one["scores"]["quality"])
    chosen = ask("pick", small.run, "--rule", "best:quality")
    assert chosen["id"] == best["id"]
    assert "quality" in chosen["why"]
    assert {one["baseline"] for one in chosen["comparisons"]} == {"transformer++", "striped-mamba"}
    smallest = min(one["scores"]["cache"] for one in front)
    limited = ask("pick", small.run, "--where", f"cache<={smallest:.0f}")
    assert limited["scores"]["cache"] == smallest


def test_a_child_knows_its_parents_and_they_know_it(ask: Ask, small: Small) -> None:
    everyone = ask("show", small.run)["individuals"]
    child = next(one for one in everyone if one["parents"])
    lineage = ask("lineage", child["id"])
    assert {one["id"] for one in lineage["ancestors"]} == {child["id"], *child["parents"]}
    assert {arrow["parent"] for arrow in lineage["arrows"]} == set(child["parents"])
    for parent in child["parents"]:
        assert child["id"] in ask("show", parent)["children"]


def network(genome: str) -> list[Any]:
    """What each LIV of a backbone is and takes from others, from the plan alone."""
    space = BackboneSpace(BackboneSettings(depth=8, dimensions=Dimensions(width=16, head_size=4)))
    livs = []
    for plan in space.plan(space.parse(genome)):
        taken = [
            {role: place for role, place in taken.items() if place != plan.position}
            for taken in (plan.origin, plan.weights)
        ]
        livs.append((plan.row.name, taken))
    return livs


def test_diff_names_every_liv_of_the_network_that_differs(
    ask: Ask, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = ask("show", small.run)["individuals"][:2]
    document = ask("diff", a["id"], b["id"])
    left, right = network(a["genome"]), network(b["genome"])
    wanted = [place for place, (x, y) in enumerate(zip(left, right, strict=True), 1) if x != y]
    assert [row["position"] for row in document["differences"]] == wanted
    assert document["distance"] == pytest.approx(len(wanted) / len(left))
    assert ask("diff", a["id"], a["id"])["differences"] == []
    for row in document["differences"]:
        assert row["a"].startswith(left[row["position"] - 1][0])
        assert row["b"].startswith(right[row["position"] - 1][0])
    capsys.readouterr()
    assert run(["diff", a["id"], b["id"], "--store", str(small.store)]) == ExitCode.SUCCESS
    lines = capsys.readouterr().out.splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("LIV"))
    assert lines[heading - 1] == f"{len(wanted)} of {len(left)} LIVs differ (distance {document['distance']:.3f})"
    assert lines[heading].split("  ")[-1].strip() == "what differs"
    assert [int(line.split()[0]) for line in lines[heading + 1 :]] == wanted


def test_last_is_the_newest_run_or_the_individual_that_answers_for_it(
    ask: Ask, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    best = ask("front", "last")["front"][0]["id"]
    assert ask("lineage", "last") == ask("lineage", best)
    assert ask("diff", "last", best)["differences"] == []
    assert ask("cost", "last") == ask("cost", best)
    assert ask("show", "last") == ask("show", small.run)
    with Archive(small.store) as archive:
        assert archive.individual("last").id == archive.run("last").best().id == best


def test_a_cost_is_that_of_the_individual_and_of_its_sizes(ask: Ask, small: Small, tmp_path: Path) -> None:
    one = ask("pick", small.run)
    facts = ask("show", one["id"])["facts"]
    given = ask("cost", one["id"], "--length", "16", "--convention", "actual")
    assert (given["parameters"], given["cache_bytes"]) == (facts["parameters"], facts["cache_bytes"])
    assert (given["width"], given["depth"], given["scaling"]) == (16, 8, None)
    (tmp_path / "one.json").write_text(json.dumps(ask("show", one["id"])))
    same = ["--width", "16", "--head-size", "4", "--length", "16", "--convention", "actual"]
    assert ask("cost", str(tmp_path / "one.json"), *same) == given
    twice = ask("cost", one["id"], "--depth", "16", "--length", "16", "--convention", "actual")
    assert "stacked to 16" in twice["scaling"]
    assert (twice["parameters"] - 16) == 2 * (given["parameters"] - 16), "a last norm is there once"
    assert twice["cache_bytes"] == 2 * given["cache_bytes"]
    assert ask("cost", one["id"], "--width", "32", "--head-size", "8")["width"] == 32


@pytest.mark.slow
def test_genomes_are_shown_without_integers_that_have_no_effect(
    ask: Ask, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in ask("show", small.run)["individuals"]:
        capsys.readouterr()
        assert run(["show", one["id"], "--store", str(small.store)]) == ExitCode.SUCCESS
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("genome")]
        (shown,) = {ask("show", line.removeprefix("genome").strip())["genome"]}
        known = ask("show", one["genome"])
        assert known["canonical"] == shown
        assert ask("show", shown)["canonical"] == shown
        assert known["words"] == ask("show", one["id"])["words"]


def test_lineage_says_what_a_birth_changed(ask: Ask, small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    child = next(one for one in ask("show", small.run)["individuals"] if one["parents"])
    capsys.readouterr()
    assert run(["lineage", child["id"], "--store", str(small.store)]) == ExitCode.SUCCESS
    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{child['id']}  ") and " of " in line
    ]
    for parent in child["parents"]:
        count = len(ask("diff", parent, child["id"])["differences"])
        assert f"{parent} ({count} of 8 LIVs differ)" in line or (count == 0 and f"{parent} (the same network)" in line)


def test_a_backbone_of_ones_own_is_shown(ask: Ask, tmp_path: Path) -> None:
    shown = ask("show", "11112 91111 11112 92121", "--depth", "8", "--svg", str(tmp_path / "b.svg"))
    assert shown["canonical"] == "11112 91111 12112 92121 13122 93131 14122 94141"
    assert (shown["depth"], shown["motif"]) == (8, 4)
    assert "LIV 7 (SA-1) uses the features K of LIV 5." in shown["words"]
    assert ElementTree.parse(tmp_path / "b.svg").getroot().tag.endswith("svg")
    assert ask("show", "striped-mamba")["motif"] == 12


def test_drawings_are_svg_and_the_report_is_one_page_of_its_own(ask: Ask, small: Small, tmp_path: Path) -> None:
    one = ask("pick", small.run)["id"]
    ask("show", one, "--svg", str(tmp_path / "deep" / "genome.svg"))
    ask("lineage", one, "--svg", str(tmp_path / "lineage.svg"))
    for path in (tmp_path / "deep" / "genome.svg", tmp_path / "lineage.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    document = ask("report", small.run, "--output", str(tmp_path / "report.html"))
    page = Path(document["file"]).read_text()
    assert page.lower().startswith("<!doctype html>")
    assert small.run in page
    assert not re.search(r'(src|href)="https?://', page)


@pytest.mark.slow
def test_a_trained_model_writes_the_same_again(ask: Ask, small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    one = ask("pick", small.run)["id"]
    first = ask("generate", one, "--prompt", "def ", "--tokens", "12", "--seed", "3")
    assert first == ask("generate", one, "--prompt", "def ", "--tokens", "12", "--seed", "3")
    assert first["text"] != ask("generate", one, "--prompt", "def ", "--tokens", "12", "--seed", "4")["text"]
    assert run(["generate", one, "--prompt", "def ", "--tokens", "12", "--seed", "3", "--store", str(small.store)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("def ")
    assert not any(ord(character) < 32 and character not in "\n\t" for character in shown)
    document = ask("generate", one, "--prompt", "\x1b[31m\u202e", "--tokens", "3")
    assert document["prompt"] == "\x1b[31m\u202e", "JSON stays JSON for any text"
    assert json.dumps(document).isascii()


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["front", "r0000000"], ExitCode.NOT_FOUND, "r0000000"),
        (["show", "ffffffffffff"], ExitCode.NOT_FOUND, "ffffffffffff"),
        (["generate", "zzz", "--prompt", "x"], ExitCode.NOT_FOUND, "zzz"),
        (["pick", "last", "--rule", "nicest"], ExitCode.USAGE, "knee"),
        (["pick", "last", "--rule", "best:qualty"], ExitCode.USAGE, "quality"),
        (["pick", "last", "--where", "cache<1"], ExitCode.NOT_FOUND, "cache<1"),
        (["pick", "last", "--where", "cache is small"], ExitCode.USAGE, "cache<700K"),
        (["lineage", "zzz"], ExitCode.NOT_FOUND, "zzz"),
        (["cost", "zzz"], ExitCode.NOT_FOUND, "no genome, no known name (transformer++"),
        (["cost", "last", "--depth", "11"], ExitCode.USAGE, "cannot have 11"),
        (["show", "11111 91119"], ExitCode.USAGE, "segment 2"),
        (["show", "last", "--depth", "11"], ExitCode.USAGE, "cannot have 11"),
        (["train", "last", "--depth", "11"], ExitCode.USAGE, "cannot have 11"),
        (["train", "last", "--set", "space.classes=['SA-1']"], ExitCode.USAGE, "space.classes decides what a search"),
        (["train", "last", "--set", "space.residuals=true"], ExitCode.USAGE, "what can change: space.depth"),
        (["train", "last", "--data", "x"], ExitCode.USAGE, "leave --data out"),
        (["train", "last", "--recipe", "backbone.demo"], ExitCode.USAGE, "leave --recipe out"),
        (["train", "11111 9111x"], ExitCode.USAGE, "'9111x'"),
        (["train", "transformer++", "--depth", "7"], ExitCode.USAGE, "even number"),
        (["train", "transformer++", "--set", "space.designs=['sharing']"], ExitCode.USAGE, "space.designs decides"),
        (["train", "h_model.pointer", "--depth", "4"], ExitCode.USAGE, "--depth is for an architecture"),
        (["evolve", "backbone.demo", "--start", "zzz"], ExitCode.NOT_FOUND, "no individual of the store"),
        (["evolve", "backbone.demo", "--start", "last", "--depth", "11"], ExitCode.USAGE, "cannot have 11"),
        (["evolve", "backbone.demo", "--start", "transformer++@4"], ExitCode.USAGE, "it has 4 LIVs"),
        (["show", "last", "--svg", "x.svg"], ExitCode.USAGE, "--svg"),
    ],
)
def test_what_is_not_there(arguments: list[str], code: ExitCode, wanted: str, small: Small, refuse: Refuse) -> None:
    refuse([*arguments, "--store", str(small.store)], code, wanted)


@pytest.mark.parametrize("command", ["status", "front", "pick", "report", "repair", "extend run zoo"])
def test_no_store(command: str, tmp_path: Path, refuse: Refuse) -> None:
    refuse([*command.split(), "--store", str(tmp_path / "nix")], ExitCode.NOT_FOUND, "no store at")
    assert not (tmp_path / "nix").exists()


def test_a_file_that_cannot_be_written(small: Small, tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "file").write_text("")
    target = str(tmp_path / "file" / "report.html")
    refuse(["report", "last", "--output", target, "--store", str(small.store)], ExitCode.USAGE, "report.html")


def test_bad_sampling(small: Small, ask: Ask, refuse: Refuse) -> None:
    one = ask("pick", small.run)["id"]
    for options, wanted in (
        (["--prompt", ""], "empty"),
        (["--prompt", "x", "--tokens", "0"], "--tokens"),
        (["--prompt", "x", "--temperature", "-1"], "temperature"),
        (["--prompt", "x", "--top-p", "0"], "top_p"),
        (["--prompt", "x", "--seed", "-1"], "--seed"),
        (["--prompt", "x", "--tokens", "many"], "whole number"),
    ):
        refuse(["generate", one, *options, "--store", str(small.store)], ExitCode.USAGE, wanted)


def test_names_of_strangers_are_plain_text(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "\x1b]52;c;eA==\x07[bold]", "--store", str(small.store)]) == ExitCode.NOT_FOUND
    assert not {"\x1b", "\x07"} & set(capsys.readouterr().err)
