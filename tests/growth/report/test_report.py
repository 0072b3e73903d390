"""What a reader sees of networks that grew agrees with their logs and with the networks that were kept."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from evodevo.cli.application import run as command
from evodevo.errors import ExitCode, StoreDamagedError, UsageError
from evodevo.experiments.comparison import ComparisonTable, compare_arms
from evodevo.experiments.recipe import Comparison, ExperimentSettings
from evodevo.experiments.report.page import remarks
from evodevo.experiments.trials import Variant
from evodevo.growth.edit_spec import Action
from evodevo.growth.events import learning
from evodevo.growth.report.data import UNUSED, GrowthHistory, modules_after
from evodevo.growth.report.drawing import curve_drawing, difference_words, timeline_drawing
from evodevo.growth.report.reading import grown_network, growth_of, started
from evodevo.growth.report.sections import differing_table, growth_pictures, newborn_pictures
from evodevo.growth.report.tables import arms_table, decisions_table, grown_rows, hybrids_table, missing_rivals
from evodevo.growth.report.text import edit_words, growth_words, history
from evodevo.growth.report.zoos import router_shares, zoo_pictures
from evodevo.growth.spec import Operation
from evodevo.growth.strategists.base import Strategist, create
from evodevo.growth.strategists.state import Legal, State
from evodevo.growth.strategists.transition import Decision
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.spec import HModelStructure
from evodevo.module_zoo.modules.genotype_layer import GenotypeLayer
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooRouterStructure, ZooStructure
from evodevo.networks.towers.spec import ExtractorStructure
from evodevo.operators.layers.transformer import TransformerLayer
from evodevo.runs.archive import Archive, Individual, Run
from evodevo.runs.evolve import begin
from evodevo.runs.recipe import ExecutionSettings
from evodevo.testing.small_networks import settings

pytestmark = pytest.mark.slow  # of one grown zoo and one grown H-Model, which take most of the time

ZOO = ZooStructure(
    width=16,
    extractor=ExtractorStructure(blocks=0),
    modules=start_zoo(16)[:4],
    router=ZooRouterStructure(heads=2),
)
ZOO_IDS = {one.id for one in ZOO.modules}
GROWTH: dict[str, Any] = {
    "events": {"count": 3, "first": 0.2, "last": 0.7, "warm": 0.1, "horizon": 0.15, "overhead": 10.0},
    "fitness": {"samples": 24},
    "prune": {"age": 0, "distil_steps": 1, "tolerance": 10.0, "least": 2},
    "birth": {"most": 4},
    "replay": {"capacity": 24, "steps": 1},
}
RULES = {**GROWTH, "strategist": "ppo", "birth": {"most": 6}}
MODEL = HModelStructure(
    stream="paper",
    width=16,
    iterations=2,
    input_blocks=0,
    output_blocks=0,
    hidden=(TransformerLayer(heads=2), *(GenotypeLayer(module=one) for one in start_zoo(16)[:3])),
)
PAYLOAD = "grow <b>&"


class Scripted(Strategist):
    """A hybrid takes somebody's place; then somebody goes; then a child is born. The heuristic would do nothing."""

    name = "scripted"

    def _choose(self, state: State, legal: Legal, rng: Any) -> Decision:
        wanted: tuple[Operation, ...] = ("hybridise",) if state.progress < 0.4 else ("prune",)
        wanted = ("grow",) if state.progress > 0.6 else wanted
        for operation in wanted:
            targets = legal.targets(operation)
            if targets and not (operation in ("hybridise", "grow") and not legal.births):
                return Decision(legal=legal, action=targets[0], prior=Action(operation="noop"))
        nothing = legal.targets("noop")[0]
        return Decision(legal=legal, action=nothing, prior=nothing)


def scripted(name: str, **given: Any) -> Strategist:
    if name != "ppo":
        return create(name, **given)
    return Scripted(given["settings"], actions=1, seed=given["seed"])


def made() -> ExperimentSettings:
    network = ModuleZooNetwork(structure=ZOO)
    fixed = {**GROWTH, "strategist": "fixed", "events": {"count": 0}}
    arms = (
        Variant(name=PAYLOAD, network=network, procedure="grow", options={**GROWTH, "strategist": "ppo"}),
        Variant(name="fixed", network=network, procedure="grow", options=fixed),
        Variant(name="trained", network=network),
        Variant(name="H-Model", network=HModelNetwork(structure=MODEL), procedure="grow", options=RULES),
    )
    evaluation = settings({"training": {"budget": {"steps": 20}}})
    return ExperimentSettings(
        experiment=Comparison(title="growth", arms=arms, seeds=1),
        evaluation=evaluation,
        execution=ExecutionSettings(executor="serial"),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("grown") / "runs"
    more: dict[str, Any] = {"listener": None, "on_start": None, "cache_folder": folder.parent}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "create", scripted)
        begin("train", "module_zoo.own", made(), store=folder, **more).archive.close()
    with Archive(folder) as archive:
        yield archive.runs()[0]


@pytest.fixture(scope="module")
def table(run: Run) -> ComparisonTable:
    return compare_arms(run)


def of(run: Run, name: str) -> Individual:
    (one,) = [one for one in run.individuals() if one.genome.name == name]
    assert one.state == "done", one.evaluation and one.evaluation.detail
    return one


@pytest.fixture(scope="module")
def grown(run: Run) -> Individual:
    return of(run, PAYLOAD)


@pytest.fixture(scope="module")
def grown_model(run: Run) -> Individual:
    return of(run, "H-Model")


@pytest.fixture(scope="module")
def growth(grown: Individual) -> GrowthHistory:
    found = growth_of(grown)
    assert found is not None
    return found


def texts(svg: str) -> str:
    return " ".join(text.text or "" for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"))


def lanes(svg: str) -> set[str]:
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g")
    return {one.get("data-id", "") for one in found if one.get("class") == "lane"}


# From the record


def test_lives_agree_with_the_record(growth: GrowthHistory, grown: Individual) -> None:
    told = grown.fact["growth"]
    assert growth.strategist == "ppo"
    assert [one.id for one in growth.living] == told["modules"]
    assert [one.number for one in growth.events] == [1, 2, 3]
    assert len(growth.rewards) == len(told["rewards"]) == 3
    for life in growth.lives:
        assert life.gone is None or life.gone > life.born
        steps = [one.step for one in life.sights]
        assert steps == sorted(steps)
        assert all(life.born_step <= step <= (life.gone_step or growth.steps) for step in steps)
        assert set(life.parents) <= {one.id for one in growth.lives if one.born < life.born}
        later = [one.number for one in growth.events if one.number > life.born]
        assert growth.events_lived(life) == sum(number < (life.gone or 99) for number in later)
    assert growth.events_lived(growth.lives[0]) >= 1
    for entry in told["timeline"]:
        there = {one.id for one in growth.lives if one.born < entry["event"] and (one.gone or 99) >= entry["event"]}
        assert there == {row["id"] for row in entry["modules"]}
        assert set(entry["born"]) == {one.id for one in growth.lives if one.born == entry["event"]}
        assert set(entry["gone"]) == {one.id for one in growth.lives if one.gone == entry["event"]}


def test_who_gave_its_place_knows_its_heir(growth: GrowthHistory) -> None:
    (hybrid,) = growth.hybrids
    replaced = [one for one in growth.lives if one.heir]
    assert [(one.heir, one.gone) for one in replaced] == [(hybrid.id, hybrid.born)]
    assert growth.replaced == 1
    assert growth.counts["prune"] == 2, "the one that was replaced, and one that was not"


def test_the_network_of_the_end_is_the_kept_one(grown: Individual, grown_model: Individual) -> None:
    for one in (grown, grown_model):
        network = grown_network(one)
        assert network.structure == one.load().structure
        assert network.structure != one.genome.network.structure
    assert modules_after(ZOO.modules, []) == ZOO.modules


def test_weights_of_an_earlier_moment_are_of_the_zoo_of_that_moment(growth: GrowthHistory, grown: Individual) -> None:
    first = modules_after(ZOO.modules, [edit for edit in growth.edits if edit.event == 1])
    fact = {**grown.fact, "routing": {"ids": [one.id for one in first]}}
    earlier: Any = SimpleNamespace(id=grown.id, fact=fact, genome=grown.genome)
    network = grown_network(earlier)
    assert isinstance(network, ModuleZooNetwork)
    assert network.structure.modules == first
    trained = grown.genome.model_copy(update={"procedure": "train"})
    ungrown: Any = SimpleNamespace(id=grown.id, fact={}, genome=trained)
    assert grown_network(ungrown) == grown.genome.network
    assert started(grown) == ZOO.modules


def test_a_record_without_looks_start_and_overhead_is_read(growth: GrowthHistory, grown: Individual) -> None:
    old = {name: grown.fact["growth"][name] for name in ("decisions", "differing", "edits", "rewards", "timeline")}
    bare: Any = SimpleNamespace(id=grown.id, fact={"growth": old, "steps": growth.steps}, genome=grown.genome)
    found = growth_of(bare)
    assert found is not None
    assert [one.id for one in found.living] == [one.id for one in growth.living]
    assert found.strategist == "ppo"
    assert not found.overhead
    assert len(lanes(timeline_drawing(found, "fitness"))) == len(growth.lives)


def test_edits_of_another_evodevo_are_no_damage_and_a_record_of_another_shape_is(grown: Individual) -> None:
    growth = grown.fact["growth"]
    newer = {**growth, "edits": [{**growth["edits"][0], "unheard_of": 1}]}
    bare: Any = SimpleNamespace(id=grown.id, fact={"growth": newer}, genome=grown.genome)
    with pytest.raises(UsageError, match="a recorded edit"):
        growth_of(bare)
    bare.fact = {"growth": {**growth, "timeline": 3}}
    with pytest.raises(StoreDamagedError, match=grown.id):
        growth_of(bare)


def test_a_training_that_was_cut_short_is_read_from_events(growth: GrowthHistory, grown: Individual, run: Run) -> None:
    cut: Any = SimpleNamespace(id=grown.id, fact={}, genome=grown.genome, run=run)
    found = growth_of(cut)
    assert found is not None
    assert found.edits == tuple(edit.model_copy(update={"tensors": other.tensors})
                                for edit, other in zip(growth.edits, found.edits, strict=True))  # fmt: skip
    assert found.rewards == pytest.approx(growth.rewards)
    assert history(found) == history(growth)
    assert found.decisions == growth.decisions
    assert [(one.id, one.gone) for one in found.lives] == [(one.id, one.gone) for one in growth.lives]
    another: Any = SimpleNamespace(id="somebody", fact={}, genome=grown.genome, run=run)
    assert growth_of(another) is None


# The report


def test_tables_say_what_the_log_says(table: ComparisonTable, growth: GrowthHistory, grown: Individual) -> None:
    rows = grown_rows(table)
    arms, decisions = arms_table(rows), decisions_table(rows)
    names = [row[0] for row in arms.rows]
    assert names == [PAYLOAD, "fixed", "H-Model"], "an arm that is only trained cannot grow"
    done = dict(zip(arms.columns, arms.rows[0], strict=True))
    assert (done["strategist"], done["seeds"], done["events"]) == ("ppo", "1", "3")
    assert (done["hybrids"], done["pruned"], done["replaced"], done["grown"]) == ("1", "2", "1", "1")
    assert int(done["edits"]) == len(growth.accepted)
    assert int(done["left"]) == len(growth.living) == len(grown.load().live)
    still = dict(zip(arms.columns, arms.rows[1], strict=True))
    assert (still["events"], still["edits"], still["left"]) == ("0", "0", "4")
    decided = dict(zip(decisions.columns, decisions.rows[0], strict=True))
    differing = grown.fact["growth"]["differing"]
    assert decided["unlike heuristic"] == f"{len(differing)} (100 %)" == "3 (100 %)"
    assert decided["reward"] == f"{sum(growth.rewards) / 3:.3g}"
    assert float(decided["FLOPs of growth"].removesuffix(" %")) > 0
    assert decisions.rows[1][2] == "–", "fixed has no prior"


def test_hybrids_are_followed(table: ComparisonTable, growth: GrowthHistory) -> None:
    hybrids = hybrids_table(grown_rows(table))
    assert hybrids is not None
    (row,) = [row for row in hybrids.rows if row[1] == PAYLOAD]
    name, arm, seed, parents, born, survived, became, *numbers = row
    (hybrid,) = growth.hybrids
    assert (name, arm, seed) == (hybrid.id, PAYLOAD, "0")
    assert parents == " and ".join(hybrid.parents)
    assert (int(born), int(survived)) == (1, growth.events_lived(hybrid))
    weight = hybrid.last("usage")
    assert (became == "lives") == (hybrid.gone is None and weight is not None and weight >= UNUSED)
    assert all(float(one) >= 0 for one in numbers)


def test_pictures_show_every_module_and_every_event(growth: GrowthHistory, grown: Individual) -> None:
    timeline, usage, curve = growth_pictures(grown, growth)
    everybody = {one.id for one in growth.lives}
    assert lanes(timeline.svg) == lanes(usage.svg) == everybody
    assert "contribution" in texts(timeline.svg)
    assert "router weight" in texts(usage.svg)
    assert timeline.svg != usage.svg
    drawn = texts(curve.svg)
    assert "hybrid of two" in drawn
    assert "architecture split" in drawn
    assert [edit_words(edit) for edit in growth.edits if edit.after is not None] == [
        one.folded for one in newborn_pictures(growth)
    ]
    assert len(history(growth)) >= len(growth.edits)
    differing = differing_table(growth)
    assert differing is not None
    assert len(differing.rows) == 3


def test_an_h_model_is_drawn_as_it_is_in_the_end(grown_model: Individual) -> None:
    grown = growth_of(grown_model)
    assert grown is not None
    assert {"transformer-0", *(one.id for one in start_zoo(16)[:3])} <= {one.id for one in grown.lives}
    timeline, *_, network = growth_pictures(grown_model, grown)
    assert lanes(timeline.svg) == {one.id for one in grown.lives}
    living = [one.id for one in grown.living if one.archetype != "layer"]
    for drawn in (texts(network.svg), texts(grown_model.run.slice.drawing(grown_model))):
        assert living
        assert all(name in drawn for name in living)


def test_newborns_are_drawn_beside_their_parents(growth: GrowthHistory) -> None:
    for one, life in zip(newborn_pictures(growth), [x for x in growth.lives if x.parents], strict=True):
        drawn = texts(one.svg)
        assert life.id in drawn
        assert all(f"parent {name}" in drawn for name in life.parents)


def test_what_is_new_in_a_child_is_said(growth: GrowthHistory) -> None:
    (hybrid,) = growth.hybrids
    assert hybrid.genotype is not None
    said = difference_words(hybrid, {})
    assert f"{len(hybrid.genotype.graph.nodes)} " in said or "," in said
    parent = next(one.genotype for one in growth.lives if one.operation == "start")
    assert parent is not None
    name, value = next((n, v) for n, v in parent.attributes.items() if isinstance(v, int) and not isinstance(v, bool))
    changed = parent.model_copy(update={"attributes": {**parent.attributes, name: value + 1}})
    child = replace(hybrid, genotype=changed, operation="grow", parents=("p",))
    assert difference_words(child, {"p": parent}) == f"grown; {name.replace('_', ' ')} {value} → {value + 1}"
    assert "no attribute" in difference_words(replace(child, genotype=parent), {"p": parent})


def test_the_network_is_drawn_as_it_is_in_the_end(
    table: ComparisonTable, growth: GrowthHistory, grown: Individual
) -> None:
    network, *others = zoo_pictures(table)[PAYLOAD]
    gone = {one.id for one in growth.lives if one.gone is not None}
    for drawn in (texts(network.svg), texts(grown.run.slice.drawing(grown))):
        assert all(one.id in drawn for one in growth.living)
        assert not any(name in drawn.split() for name in gone)
    shares = router_shares(table)
    assert shares is not None
    newborns = dict(zip(shares.columns, shares.rows[0], strict=True))["newborns"]
    routing = grown.fact["routing"]
    born = [w for name, w in zip(routing["ids"], routing["weights"], strict=True) if name not in ZOO_IDS]
    assert float(newborns) == pytest.approx(100 * sum(born), abs=0.06)
    assert not {one.id for one in growth.living} - ZOO_IDS & set(shares.columns)
    folded = [one.folded for one in others if one.folded]
    assert folded == [f"The graph of {one.id}" for one in growth.living]
    heat_maps = [texts(one.svg) for one in others if "Router weights by" in one.caption]
    assert heat_maps, "routing by class"
    assert all(one.id in drawn for one in growth.living for drawn in heat_maps)


def test_the_page_has_a_section_on_growth_and_no_markup_of_names(run: Run) -> None:
    text = run.slice.report(run)
    assert 'id="growth"' in text
    assert 'id="zoos"' in text
    assert ">Growth</h2>" in text
    assert "How grow &lt;b&gt;&amp; grew" in text
    assert "How H-Model grew" in text
    assert "How fixed grew" not in text, "it had no event"
    assert "grow <b>" not in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_a_network_that_did_not_change_is_still_drawn(run: Run) -> None:
    found = growth_of(of(run, "fixed"))
    assert found is not None
    assert lanes(timeline_drawing(found, "contribution")) == {one.id for one in ZOO.modules}
    assert "No error was recorded" in texts(curve_drawing(found, {}))
    assert history(found) == []


# Who is missing


def test_a_learned_strategist_without_rivals_is_remarked(table: ComparisonTable, run: Run) -> None:
    arms = made().experiment.arms
    (sentence,) = missing_rivals(arms)
    assert "random or heuristic" in sentence
    assert "ppo" in sentence
    assert sentence in remarks(run, table)
    assert missing_rivals([one for one in arms if one.options.get("strategist") != "ppo"]) == [], "nothing was learnt"
    others = [arms[0].model_copy(update={"options": {"strategist": name}}) for name in ("random", "heuristic")]
    assert missing_rivals([*arms, *others]) == []
    (fixed,) = [row for row in table.rows if row.name == "fixed"]
    assert [row.name for row in grown_rows(replace(table, rows=(fixed,)))] == ["fixed"]


def test_one_event_is_one(growth: GrowthHistory) -> None:
    one = replace(growth, events=growth.events[:1])
    assert "Grown by ppo in 1 event:" in " ".join(growth_words(one))
    assert "Grown by ppo in 3 events:" in " ".join(growth_words(growth))


# The command line


def test_show_prints_the_history_of_edits(
    growth: GrowthHistory, grown: Individual, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--store", str(grown.run.archive.folder)]
    assert command(["show", grown.id, *where]) == ExitCode.SUCCESS
    said = capsys.readouterr().out
    assert all(edit_words(edit) in said for edit in growth.edits)
    assert all(f"{one.reward:+.2f}" in said for one in growth.events if one.reward is not None)
    assert "Grown by ppo in 3 events" in said
    assert command(["show", grown.id, "--json", *where]) == ExitCode.SUCCESS
    assert json.loads(capsys.readouterr().out)["facts"]["growth"] == grown.fact["growth"]


def test_show_of_a_run_has_a_row_per_arm(growth: GrowthHistory, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    store = run.archive.folder
    assert command(["show", run.id, "--store", str(store)]) == ExitCode.SUCCESS
    shown = capsys.readouterr()
    table = shown.out.partition("how the networks grew:\n")[2].splitlines()
    assert [line.split("  ")[0] for line in table[1:4]] == [PAYLOAD, "fixed", "H-Model"]
    assert "No arm with strategist random or heuristic" in shown.err
    assert command(["show", run.id, "--json", "--store", str(store)]) == ExitCode.SUCCESS
    told = json.loads(capsys.readouterr().out)["comparison"]["growth"]
    assert told[PAYLOAD]["births"]["mean"] == growth.births
    assert (told[PAYLOAD]["hybrids"], told["fixed"]["hybrids"]) == (1, 0)
    assert told["fixed"]["modules"]["mean"] == 4
    assert "trained" not in told
