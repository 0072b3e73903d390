"""``evodevo cost``: the integers of the paper, through the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.cli.application import run
from evodevo.errors import ExitCode
from evodevo.operators.spec import Dimensions


def cost(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["cost", *arguments, "--json"]) == ExitCode.SUCCESS
    return json.loads(capsys.readouterr().out)


def test_the_paper_s_integers(capsys: pytest.CaptureFixture[str]) -> None:
    command = "transformer++ --depth 24 --width 768 --length 4096 --convention star --json"
    assert run(["cost", *command.split()]) == ExitCode.SUCCESS
    begin = '{"schema": "evodevo.cost/1", "parameters": 84934656, "cache_bytes": 150994944, '
    assert capsys.readouterr().out.startswith(begin)
    mamba = cost(capsys, "striped-mamba")
    assert mamba["cache_bytes"] == 25_657_344
    assert mamba["parameters"] == pytest.approx(79.7e6, rel=1e-3)
    assert cost(capsys, "transformer++", "--depth", "48", "--width", "2048")["cache_bytes"] == 805_306_368
    assert cost(capsys, "striped-mamba", "--depth", "48", "--width", "2048")["cache_bytes"] == 136_839_168


def test_every_option_reaches_the_space(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--depth 6 --width 128 --head-size 32 --length 77 --batch 3 --mode decode --convention actual"
    answer = cost(capsys, "transformer++", *options.split(), "--vocabulary", "256", "--untied", "--element-bytes", "2")
    space = BackboneSpace(BackboneSettings(depth=6, dimensions=Dimensions(width=128, head_size=32)))
    given = {"length": 77, "batch": 3, "mode": "decode", "convention": "actual", "vocabulary": 256}
    record = space.cost(space.named("transformer++"), **given, tied=False, element_bytes=2)
    assert {key: answer[key] for key in record.to_json()} == record.to_json()
    assert answer["embedding_parameters"] == 2 * 256 * 128


def test_texts_of_one_genome_cost_the_same_and_sharing_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    spaced = cost(capsys, "11111 91111", "--width", "64")
    hyphened = cost(capsys, "11111-91111", "--width", "64")
    residual = cost(capsys, "111111 911112", "--width", "64")
    assert spaced == hyphened
    assert spaced["depth"] == 2
    assert residual["parameters"] == spaced["parameters"]
    assert residual["genome"] == "111111 911112"
    alone = cost(capsys, "11111 91111 12121 92121", "--width", "64")
    shared = cost(capsys, "11211 91111 11221 92121", "--width", "64")
    assert shared["parameters"] < alone["parameters"]


def test_people_see_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", "transformer++"]) == ExitCode.SUCCESS
    shown = capsys.readouterr().out
    assert "84,934,656" in shown
    assert "150,994,944" in shown


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["transfromer++"], "Did you mean 'transformer++'?"),
        ([""], "Known: striped-hyena"),
        (["11111 91119"], "segment 2"),
        (["11111 9111x"], "'9111x'"),
        (["transformer++", "--depth", "7"], "even number"),
        (["transformer++", "--depth", "513"], "512"),
        (["11111 91111", "--depth", "3"], "2 LIVs"),
        (["transformer++", "--width", "100"], "multiple of 16"),
        (["transformer++", "--width", "-64"], "width"),
        (["transformer++", "--head-size", "7"], "head size 7"),
        (["transformer++", "--length", "-1"], "length is -1"),
        (["transformer++", "--batch", "0"], "batch is 0"),
        (["transformer++", "--vocabulary", "-5"], "vocabulary is -5"),
        ([" ".join(["11111"] * 513)], "at most 512"),
        (["T4 a1 r1 sum dense | nonsense"], "nonsense"),
        (["k2 output | nonsense"], "unknown archetype 'nonsense'"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], wanted: str, refuse: Any) -> None:
    refuse(["cost", *arguments], ExitCode.USAGE, wanted)


def test_an_h_model_costs_its_layers_as_often_as_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    once = cost(capsys, "T1 a1 r1 sum dense | tr tr mlp", "--width", "64", "--length", "32")
    four = cost(capsys, "T4 a1 r1 sum dense | tr tr mlp", "--width", "64", "--length", "32")
    assert 3.5 < four["flops"] / once["flops"] < 4.5
    assert once["parameters"] < four["parameters"] < 1.01 * once["parameters"] + 4 * 64, "embeddings of iterations"
    assert four["genome"] == "T4 a1 r1 sum dense | tr tr mlp"
    assert run(["cost", "T4 a1 r1 sum dense | tr tr mlp"]) == ExitCode.SUCCESS
    assert "every layer run" in capsys.readouterr().out


def test_a_zoo_costs_what_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pool = "4*mlp lstm"
    dense = cost(capsys, f"k2 output | {pool}", "--width", "64", "--length", "32")
    chosen = cost(capsys, f"k2 predictor | {pool}", "--width", "64", "--length", "32")
    assert chosen["flops"] > chosen["executed_flops"]
    assert dense["flops"] == dense["executed_flops"]
    assert (
        dense["genome"] == f"asym_residual sparsemax similar h4 k2 output | {pool.replace('4*mlp', 'mlp mlp mlp mlp')}"
    )
    assert run(["cost", f"k2 output | {pool}"]) == ExitCode.SUCCESS
    assert "modules that are not chosen" in capsys.readouterr().out
