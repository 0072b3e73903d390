"""The procedure ``pretrained``: layers of several encoders in one network (paper 6.7, Table 3).

Source: docs/spec/h_model.md#pretrained-layers.

Donors are pretrained once for all arms, or lie on this machine; their layers replace those of the arm's network, whose
inputs and outputs are fresh; adapters begin where the layers expect them; then everything is trained as ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import torch
from torch import nn

from evodevo.errors import UsageError
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.h_model.procedures.checkpoints import RECORD, DonorIsMadeError, pretrain_donor
from evodevo.h_model.procedures.pretrained_settings import DonorSettings, PretrainedOptions, donor_sizes, with_layers
from evodevo.networks.base import Network
from evodevo.networks.inputs import InputLayer
from evodevo.networks.spec import NetworkSpec
from evodevo.networks.stacks.stack_model import LayerStack
from evodevo.networks.writer import LayeredNetwork
from evodevo.operators.pretrained.embeddings import embedding_tables
from evodevo.operators.pretrained.files import weights_digest
from evodevo.operators.pretrained.spec import model_folder
from evodevo.operators.stitching import fit_adapters
from evodevo.randomness import generator
from evodevo.settings import validate
from evodevo.tasks.base import Split
from evodevo.tasks.inputs import InputSpec
from evodevo.tasks.text.tokenizers import Tokenizer, hugging_face_json, read_tokenizer_file

FOLDER = "donors"
_ROWS = 256
"""Training texts among which tokens for least squares are looked for."""


@runtime_checkable
class Texts(Protocol):
    """A task whose samples are texts."""

    tokenizer: Tokenizer

    def texts(self, split: Split) -> list[bytes]:
        """All texts of a split, in UTF-8."""
        ...


def train_pretrained(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """The procedure; see ``PretrainedOptions``.

    Raises:
        UsageError: options that do not fit, a task without texts, or donors with other ids than the task.
        NotFoundError, DataError, UnsafeFileError: a path without a model.
    """
    chosen = validate(PretrainedOptions, dict(options), what="options of the procedure 'pretrained'")
    donors: dict[str, Any] = bench.once("donors", lambda: _donors(bench, chosen))
    paths = {number: str(donors[str(number)]["path"]) for number in chosen.needed}
    digests: dict[int, str | None] = {number: str(donors[str(number)]["digest"]) for number in chosen.needed}
    sizes = {number: donor_sizes(chosen, number) for number in chosen.needed}
    in_order = with_layers(bench.arm.network, chosen, paths, sizes, digests)
    order = _order(chosen, bench.seed)
    elsewhere = chosen.model_copy(update={"layers": tuple(chosen.layers[place] for place in order)})
    network = bench.build(with_layers(bench.arm.network, elsewhere, paths, sizes, digests))
    if chosen.adapters == "least_squares":
        bench.once("adapters", lambda: _fit(bench, network, in_order, chosen))
    if chosen.embeddings == "donor":
        _take_embeddings(bench, network, chosen, paths)
    result = bench.train(network)
    return Trained(network, result)


def _donors(bench: Trainer, options: PretrainedOptions) -> dict[str, Any]:
    """Donor -> where it lies and what is known of it; those that are pretrained here are found or made."""
    if options.paths:
        folders = {number: model_folder(options.paths[number]) for number in options.needed}
    else:
        folders = _pretrained(bench, options)
    facts = {}
    for number, folder in sorted(folders.items()):
        facts[str(number)] = {"path": str(folder.resolve()), "digest": weights_digest(str(folder))}
        record = folder / RECORD
        if not options.paths and record.is_file():
            values = json.loads(record.read_text(encoding="utf-8"))
            facts[str(number)] |= {name: values[name] for name in ("sizes", "training", "first_loss", "last_loss")}
    return facts


def _pretrained(bench: Trainer, options: PretrainedOptions) -> dict[int, Path]:
    """Make the donors, first those that no other worker is just making."""
    task, spec = _texts(bench), _tokens(bench)
    texts = [text.decode("utf-8") for text in task.texts("train")]

    def make(donor: DonorSettings, wait: bool) -> Path:
        return pretrain_donor(
            texts,
            task.tokenizer,
            **donor.model_dump(),
            **options.pretraining.model_dump(),
            length=spec.length,
            folder=bench.cache_folder / FOLDER,
            wait=wait,
        )

    folders: dict[int, Path] = {}
    for wait in (False, True):
        for number in options.needed:
            if number not in folders:
                try:
                    folders[number] = make(options.donors[number], wait)
                except DonorIsMadeError:
                    continue
    return folders


def _order(options: PretrainedOptions, seed: int) -> list[int]:
    """Index of the donor's layer for each place. Shuffled, no layer with others of its donor stays, in one circle per
    donor."""
    order = list(range(len(options.layers)))
    if not options.shuffled:
        return order
    for donor in options.needed:
        places = [place for place, (owner, _) in enumerate(options.layers) if owner == donor]
        circle = generator(seed, "shuffled layers", donor).permutation(places).tolist()
        for place, other in zip(circle, [*circle[1:], circle[0]], strict=True):
            order[place] = other
    return order


def _fit(bench: Trainer, network: Network, in_order: NetworkSpec, options: PretrainedOptions) -> list[list[float]]:
    """Least squares for all adapters; (place, explained on the way in, on the way out) of each."""
    specs = in_order.layers
    if not any(spec.width is not None for spec in specs):
        return []
    spec = _tokens(bench)
    if options.paths:
        _check_ids(
            _texts(bench).tokenizer, [Path(path) for path in {getattr(layer_spec, "path", "") for layer_spec in specs}]
        )
    rows = generator(bench.seed, "adapters").permutation(bench.task.count("train"))[:_ROWS]
    batch = bench.task.fetch("train", np.sort(rows))
    mask = batch.get(f"{spec.name}/mask")
    fits = fit_adapters(
        cast(LayeredNetwork, network).hidden_layers(),
        specs,
        torch.from_numpy(np.asarray(batch[spec.name])),
        None if mask is None else torch.from_numpy(np.asarray(mask)),
        count=options.tokens,
    )
    return [[float(fit.layer), fit.enter, fit.leave] for fit in fits]


@torch.no_grad()
def _take_embeddings(bench: Trainer, network: Network, options: PretrainedOptions, paths: Mapping[int, str]) -> None:
    """Each stack reads its donor's tokens and positions."""
    spec = _tokens(bench)
    stacks = [module for module in network.modules() if isinstance(module, LayerStack)]
    for stack, donor in zip(stacks, options.whole, strict=True):
        _check_ids(_texts(bench).tokenizer, [model_folder(paths[donor])])
        reader = stack.inputs.layers[spec.name]
        assert isinstance(reader, InputLayer)
        assert isinstance(reader.embedding, nn.Embedding)
        assert reader.positions is not None
        tokens, positions = embedding_tables(paths[donor], spec.vocabulary, spec.length)
        reader.embedding.weight.copy_(tokens)
        reader.positions.copy_(positions)


def _texts(bench: Trainer) -> Texts:
    task: object = bench.task
    if not isinstance(task, Texts):
        raise UsageError(
            f"the task {bench.task.name!r} has no texts to pretrain donors on; take text_labels, or give paths and "
            "adapters = 'orthogonal'."
        )
    return task


def _tokens(bench: Trainer) -> InputSpec:
    specs = [spec for spec in bench.task.inputs if spec.modality == "tokens"]
    if not specs:
        raise UsageError(f"the task {bench.task.name!r} has no input of tokens; the layers are of text encoders.")
    return specs[0]


def _check_ids(tokenizer: Tokenizer, folders: Sequence[Path]) -> None:
    """Raise ``UsageError`` where a donor that reads the task's tokens has other ids than the task."""
    mine = _ids(hugging_face_json(tokenizer))
    for folder in folders:
        file = folder / "tokenizer.json"
        if not file.is_file() or _ids(hugging_face_json(read_tokenizer_file(file))) != mine:
            raise UsageError(
                f"{folder} has other token ids than the task, so it cannot read its tokens: set the task's tokenizer "
                f"to {file} (all donors must share it), or adapters = 'orthogonal' and embeddings = 'fresh'."
            )


def _ids(text: str) -> dict[str, int]:
    import tokenizers

    read: Callable[..., dict[str, int]] = tokenizers.Tokenizer.from_str(text).get_vocab
    return read(with_added_tokens=False)
