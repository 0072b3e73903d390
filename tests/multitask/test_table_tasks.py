"""Tables beside images in one system: what is understood, what is shared, what stays as it was, and what is refused."""

from __future__ import annotations

import csv
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evodevo.errors import DataError, UsageError
from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.agent import AGENTS, readable
from evodevo.multitask.paths.mlp.spec import MLPStructure
from evodevo.multitask.run.create import add_task, create_system
from evodevo.multitask.run.export import export_system
from evodevo.multitask.run.predict import open_answerer
from evodevo.multitask.run.run import run_system
from evodevo.multitask.settings import AgentSettings
from evodevo.multitask.system import System
from evodevo.multitask.transfer.table import candidates
from evodevo.storage import Store
from evodevo.testing.multitask.paths import told
from fixtures.clients import client_rows, client_text

SMALL: dict[str, Any] = {
    "cycle": {"samples": 2, "generation_size": 2},
    "training": {"validations": 2, "least_between": 300, "most_between": 300, "device": "cpu"},
}
VIT = {
    "structure": {"width": 16, "heads": 2, "hidden": 32},
    "hyperparameters": {
        "num_layers": {"values": [0, 1], "default": 1},
        "ds_image_size": {"values": [8], "default": 8},
    },
}


class Zoo:
    """A system of images in a folder, and how it goes on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at: dict[str, Any] = {"store": folder / "runs", "cache_folder": folder / "cache"}
        create_system("zoo", kind="VitTiny", seed=3, overrides={**SMALL, "root": VIT}, **self.at)

    def add(self, task: str, text: str | None = None, **more: Any) -> Any:
        if text is not None:
            (self.folder / f"{task}.csv").write_text(text)
            more["data"] = self.folder / f"{task}.csv"
        return add_task("zoo", task, **{**self.at, **more})

    def run(self, **more: Any) -> Any:
        return run_system("zoo", **{"executor": SerialExecutor(), "test": True, **self.at, **more})

    def logits(self, task: str, samples: list[Any]) -> Any:
        with Store.open(self.at["store"]) as store:
            answerer = open_answerer(store, "zoo", task, cache_folder=self.folder / "nowhere")
            return answerer.logits(answerer.samples.read(samples))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """Digits, which have run, then two tables, which have run."""
    made = Zoo(tmp_path_factory.mktemp("zoo"))
    made.add("digits")
    made.run()
    np.save(made.folder / "before.npy", made.logits("digits", list(pictures())))
    made.add("clients", client_text(300))
    made.add("jobs", client_text(300), label="job")
    made.run(cycles=1)
    return made


def pictures() -> Any:
    return np.random.default_rng(1).integers(0, 256, (6, 8, 8), dtype=np.uint8)


@pytest.mark.slow
def test_a_table_beside_images_changes_no_answer_of_the_image_task(zoo: Zoo) -> None:
    before = np.load(zoo.folder / "before.npy")
    assert zoo.logits("digits", list(pictures())).tobytes() == before.tobytes()
    with Store.open(zoo.at["store"]) as store:
        system = System.open(store, "zoo")
        offers = system.view().offers
        assert store.check(deep=True).ok
        for name in ("MlpSmall~clients", "MlpSmall~jobs"):
            assert all(part.id.startswith("MlpSmall~") for part in offers[name].components)
        made = MLPStructure.model_validate_json(json.dumps(dict(offers["MlpSmall~clients"].path.structure)))
        assert (made.inputs, made.indicated) == (17, 6)


@pytest.mark.slow
def test_a_row_answers_as_when_it_was_measured_without_the_data(zoo: Zoo) -> None:
    """Round trip: the columns, the statistics and the weights are all in the store."""
    with Store.open(zoo.at["store"]) as store:
        answerer = open_answerer(store, "zoo", "clients", cache_folder=zoo.folder / "nowhere")
        rows = list(answerer.samples.rows(zoo.folder / "clients.csv"))
        (zoo.folder / "clients.jsonl.xz").write_bytes(
            lzma.compress("\n".join(map(json.dumps, client_rows(300))).encode())
        )
        lines = list(answerer.samples.rows(zoo.folder / "clients.jsonl.xz"))
        assert [name for name, _ in rows] == [name for name, _ in lines]
        answers = answerer.predict([row for _, row in rows])
        assert answers == answerer.predict([row for _, row in lines])
        right = np.mean([one.chosen == row["label"] for one, row in zip(answers, client_rows(300), strict=True)])
        assert right > 0.8
        (single,) = answerer.predict([rows[7][1]])
        assert single.chosen == answers[7].chosen
        assert single.probabilities == pytest.approx(answers[7].probabilities, abs=1e-5)
        assert answerer.classes == ("no", "yes")
        with pytest.raises(UsageError, match=r"'incme'.*income"):
            answerer.predict([{"incme": "3"}])
        with pytest.raises(UsageError, match="a sample of this task is a row of a table"):
            answerer.predict(["3"])
        (zoo.folder / "other.csv").write_text("a,b\n1,2\n")
        with pytest.raises(UsageError, match="has none of the columns"):
            list(answerer.samples.rows(zoo.folder / "other.csv"))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("form", ["source", "pt2"])
def test_an_export_classifies_a_table_as_predict_does(zoo: Zoo, tmp_path: Path, form: str) -> None:
    """The example of the card, on a CSV file, where evodevo is not."""
    with Store.open(zoo.at["store"]) as store:
        made = export_system(store, "zoo", "clients", tmp_path / "out", to=form, cache_folder=zoo.folder / "nowhere")
        answerer = open_answerer(store, "zoo", "clients", cache_folder=zoo.folder / "nowhere")
        rows = [row for _, row in answerer.samples.rows(zoo.folder / "clients.csv")]
        wanted = [(one.chosen, one.probabilities[one.chosen]) for one in answerer.predict(rows)]
    assert made.verified.difference <= made.verified.to_json()["limit"]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    code = card.split("## Rows of a table")[1].split("```python\n")[1].split("```")[0]
    script = f"import sys\nsys.modules['evodevo'] = None\n{code}"
    german = zoo.folder / "clients_in_german.csv"
    with (zoo.folder / "clients.csv").open(newline="") as file:
        cells = [[cell.replace(".", ",") if _is_number(cell) else cell for cell in row] for row in csv.reader(file)]
    with german.open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows(cells)
    assert any("," in cell for row in cells[1:] for cell in row)
    printed = []
    for table in (zoo.folder / "clients.csv", german):
        command = [sys.executable, "-I", "-B", "-c", script, str(table)]
        done = subprocess.run(command, cwd=tmp_path / "out", capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        printed.append(done.stdout)
    assert printed[0] == printed[1], "semicolons and decimal commas are read, too"
    with Store.open(zoo.at["store"]) as store:
        answerer = open_answerer(store, "zoo", "clients", cache_folder=zoo.folder / "nowhere")
        assert [row for _, row in answerer.samples.rows(german)] == rows
    found = [line.split() for line in printed[0].splitlines()]
    assert [(name, float(value)) for _, name, value in found] == [
        (name, pytest.approx(value, abs=2e-4)) for name, value in wanted
    ]


@pytest.mark.slow
def test_the_same_seed_is_the_same_system(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made = Zoo(tmp_path / name)
        made.add("clients", client_text(200))
        made.run(test=False)
        with Store.open(made.at["store"]) as store:
            system = System.open(store, "zoo")
            parts = {part.role: part.digest for part in system.view().offers["MlpSmall~clients"].components}
            found.append((parts, told(system)))
    assert found[0] == found[1]
    assert set(found[0][0]) >= {"embedding", "encoder_norm", "head"}


@pytest.mark.slow
def test_a_combined_agent_joins_paths_of_one_table_alone(tmp_path: Path) -> None:
    """Paths of other columns may be parents, and no supports: they cannot read the rows."""
    made = Zoo(tmp_path)
    made.add("clients", client_text(200), multi=True)
    made.add("upper", client_text(200), question="parity")
    made.add("wines", "a,label\n" + "".join(f"{n % 17 + (n % 2) * 9},{'xy'[n % 2]}\n" for n in range(120)))
    made.run()
    made.run(agents=["MultiMlpSmall~clients"])
    with pytest.raises(UsageError, match="MultiMlpSmall~wines needs a path of another agent of class MlpSmall"):
        made.run(agents=["multi"])
    with Store.open(made.at["store"]) as store:
        system = System.open(store, "zoo")
        offers = system.view().offers
        mine = AgentSettings(classes=2, modalities=("vector:17",))
        begin = readable(system.view(), AGENTS.get("MlpSmall"), mine)
        assert {"MlpSmall~wines", "MlpSmall~root_model~random_init"} < begin.offers.keys()
        probed = {one.path.agent for one in candidates(begin, "MlpSmall~new", (), mine.modalities)}
        assert probed == {"MlpSmall~clients", "MlpSmall~upper"}
        inside = {one.agent for one in offers["MultiMlpSmall~clients"].path.paths}
        assert inside == {"MlpSmall~clients", "MlpSmall~upper"}


def test_what_is_understood_is_said_and_a_root_is_added_once(tmp_path: Path) -> None:
    made = Zoo(tmp_path)
    (first,) = made.add("clients", client_text())
    assert first.agent.name == "MlpSmall~clients"
    assert first.root.name == "MlpSmall~root_model~random_init"
    assert first.left_out == {"remark": "it holds text", "nothing": "it is empty"}
    settings = first.agent.settings
    assert [column["name"] for column in settings["columns"]] == ["age", "income", "job", "since"]
    assert settings["modalities"] == ["vector:17"]
    (second,) = made.add("jobs", client_text(), label="job")
    assert second.root is None
    (digits,) = made.add("digits")
    assert (digits.agent.kind, "columns" in digits.agent.settings) == ("VitTiny", False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n" + "1,x\n2,y\n" * 30, "no column 'label'.*--label COLUMN"),
        ("a,label\n" + ",x\n,y\n" * 30, "no column to learn from .*'a': it is empty"),
        ("a,label\n" + "1,x\n2,x\n" * 30, "one class alone, 'x'"),
    ],
)
def test_a_bad_table_leaves_nothing(tmp_path: Path, text: str, words: str) -> None:
    made = Zoo(tmp_path)
    with pytest.raises(DataError, match=words):
        made.add("bad", text)
    with Store.open(made.at["store"]) as store:
        assert [one.name for one in System.open(store, "zoo").agents()] == ["VitTiny~root_model~random_init"]


def test_a_root_at_random_has_no_columns(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a root at random belongs to no table"):
        create_system("t", kind="MlpTiny", store=tmp_path / "r", overrides={"root": {"structure": {"inputs": 4}}})


@pytest.mark.slow
def test_a_root_that_is_trained_on_a_table_reads_its_columns(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(client_text(200))
    at: dict[str, Any] = {"store": tmp_path / "runs", "cache_folder": tmp_path / "cache"}
    overrides = {**SMALL, "root": {"training": SMALL["training"]}}
    create_system("t", kind="MlpTiny", root="pretrain:clients", data=tmp_path / "c.csv", overrides=overrides, **at)
    add_task("t", "parity", data=tmp_path / "c.csv", question="parity", **at)
    run_system("t", executor=SerialExecutor(), **at)
    with Store.open(at["store"]) as store:
        offers = System.open(store, "t").view().offers
        shared = {part.role for part in offers["MlpTiny~parity"].components if "root_model" in part.id}
        made = {part.role: part.id for part in offers["MlpTiny~root_model~clients"].components}
        assert "embedding" in made
        assert shared <= set(made)
