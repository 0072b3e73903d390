"""Random inputs to each parser: answers of the promised kind, or our own errors, nothing else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evodevo import canonical
from evodevo.backbone.space import BackboneSpace
from evodevo.backbone.space_settings import BackboneSettings
from evodevo.errors import EvodevoError, GenomeError, UsageError
from evodevo.h_model.space import HModelSpace
from evodevo.h_model.space_settings import HModelSpaceSettings
from evodevo.module_zoo.space import any_zoo
from evodevo.networks.sampling import SamplingSettings
from evodevo.operators.spec import Dimensions
from evodevo.search.space import Space
from evodevo.settings import Settings, assign, merge, validate

# ``--hypothesis-profile=thorough`` draws a hundred times as many.
MANY = settings(
    max_examples=max(100, settings().max_examples),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
SPACES: list[Space[Any]] = [
    *(
        BackboneSpace(BackboneSettings(depth=4, dimensions=Dimensions(width=64), residuals=residuals))
        for residuals in (False, True)
    ),
    HModelSpace(),
    any_zoo(16),
]
H_MODEL_WORDS = ["T4", "T", "a0.3", "r1", "sum", "attention", "w1", "dense", "k2", "m1", "c0.1", "|", "tr", "3*mlp"]
ZOO_WORDS = ["gmu", "h4", "kall", "bilinear", "|", "mlp(depth=2)", "cnn(kernels=[3])", "mlp(hidden_factor=1e400)"]
ZOO_WORDS += ['hybrid({"edges":[["in","out"]]})', "hybrid({})", "(", ")", "operator(operator=", "heads=", "[[", '"']
WORDS = st.sampled_from([*H_MODEL_WORDS, *ZOO_WORDS])
GENES = st.integers(0, 22) | st.integers()
SEGMENTS = st.lists(GENES, min_size=4, max_size=7)
TEXTS = (
    st.text(max_size=60)
    | st.text(alphabet="0123456789 .-–@+\n\t١²", max_size=80)
    | st.lists(SEGMENTS, max_size=6).map(lambda rows: " ".join(".".join(map(str, row)) for row in rows))
    | st.lists(SEGMENTS, max_size=6).map(lambda rows: "-".join("".join(map(str, row)) for row in rows))
    | st.lists(WORDS | st.text(max_size=3), max_size=9).map(" ".join)
    | st.builds(
        lambda name, rest: name + rest, st.sampled_from(["transformer++", "striped-mamba@"]), st.text(max_size=6)
    )
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
LISTS = st.lists(LEAVES, max_size=3)
VALUES = LEAVES | LISTS | st.lists(LISTS, max_size=2) | st.dictionaries(st.text(max_size=4), LEAVES, max_size=2)
MODULES = st.fixed_dictionaries(
    {
        "archetype": st.sampled_from(["mlp", "lstm", "hybrid"]) | LEAVES,
        "attributes": st.dictionaries(st.sampled_from(["depth", "outer", "dropout"]) | st.text(max_size=4), LEAVES),
    }
) | st.fixed_dictionaries({"archetype": st.just("hybrid"), "graph": VALUES})


@MANY
@given(text=TEXTS)
def test_genome_texts(text: str) -> None:
    for space in SPACES:
        with contextlib.suppress(GenomeError):
            genome = space.parse(text)
            space.check(genome)
            assert space.parse(space.print(genome)) == genome


@MANY
@given(
    envelope=VALUES
    | st.fixed_dictionaries(
        {
            "space": st.just("backbone") | LEAVES,
            "version": st.just(1) | LEAVES,
            "genes": st.lists(SEGMENTS | VALUES, max_size=6) | VALUES,
        }
    )
    | st.fixed_dictionaries(
        {
            "space": st.just("h_model"),
            "version": st.just(1),
            "genes": st.fixed_dictionaries(
                {
                    "iterations": st.integers(0, 7) | LEAVES,
                    "alpha": st.sampled_from([100, 1000]) | LEAVES,
                    "alpha_rate": st.just(1000) | LEAVES,
                    "aggregation": st.just("sum") | LEAVES,
                    "window": st.integers(-1, 3) | LEAVES,
                    "mode": st.sampled_from(["dense", "target_topm"]) | LEAVES,
                    "amount": st.integers(0, 4) | LEAVES,
                    "layers": st.lists(st.sampled_from(["transformer", "mlp"]) | LEAVES, max_size=4) | LEAVES,
                }
            ),
        }
    )
    | st.fixed_dictionaries(
        {
            "space": st.just("module_zoo"),
            "version": st.just(1),
            "genes": st.fixed_dictionaries(
                {
                    "fusion": st.just("gmu") | LEAVES,
                    "gate": st.just("softmax") | LEAVES,
                    "synergy": st.just("off") | LEAVES,
                    "heads": st.sampled_from([0, 1, 3]) | LEAVES,
                    "top_k": st.integers(-1, 3) | LEAVES,
                    "keys": st.just("output") | LEAVES,
                    "modules": st.lists(MODULES | VALUES, max_size=4) | LEAVES,
                }
            ),
        }
    )
)
def test_genome_envelopes(envelope: Any) -> None:
    for space in SPACES:
        with contextlib.suppress(GenomeError):
            genome = space.from_json(envelope)
            space.check(genome)
            assert space.from_json(space.to_json(genome)) == genome


@MANY
@given(text=st.binary(max_size=80) | st.text(max_size=80) | VALUES.map(lambda value: json.dumps(value)))
def test_json(text: str | bytes) -> None:
    with contextlib.suppress(UsageError):
        value = canonical.loads(text)
        # Lone surrogates have no UTF-8, hence no hash; everything else that is read can be written.
        with contextlib.suppress(UsageError):
            assert canonical.loads(canonical.dumps(value)) == value


KINDS: list[type[Settings]] = [
    BackboneSettings,
    HModelSpaceSettings,
    Dimensions,
    SamplingSettings,
]
KEYS = st.sampled_from(sorted({name for kind in KINDS for name in kind.model_fields})) | st.text(max_size=12)
TABLES = st.dictionaries(KEYS, LEAVES | LISTS | st.dictionaries(KEYS, LEAVES, max_size=2), max_size=3)


@MANY
@given(values=TABLES, kind=st.sampled_from(KINDS))
def test_settings(values: dict[str, Any], kind: type[Settings]) -> None:
    with contextlib.suppress(UsageError):
        read = validate(kind, values, what="test")
        assert validate(kind, json.loads(read.model_dump_json()), what="again") == read
        if isinstance(read, BackboneSettings):
            BackboneSpace(read)
        if isinstance(read, HModelSpaceSettings):
            HModelSpace(read)


@MANY
@given(values=TABLES, key=st.text(max_size=12) | KEYS, text=st.text(max_size=30))
def test_assignments(values: dict[str, Any], key: str, text: str) -> None:
    with contextlib.suppress(EvodevoError):
        assign(values, key, text)
        merge(values, values)
        validate(BackboneSettings, values, what="test")
