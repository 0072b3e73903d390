"""The format ``source``: one readable file of plain PyTorch and its weights, without evodevo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from evodevo.backbone.source.program import FILE, WEIGHTS, program
from evodevo.export.folder import write_text
from evodevo.export.models.base import Arrays, ModelExporter, ModelSubject, Written
from evodevo.export.models.process import ask

# The whole text at once; and its first half, then token by token, with what the layers keep.
_LOAD = """\
sys.path.insert(0, place)
sys.dont_write_bytecode = True
import model as written
network = written.load()
def answers(tokens):
    states, half = network.new_states(), tokens.shape[1] // 2
    steps = [network(tokens[:, :half], states)] if half else []
    steps += [network(tokens[:, place : place + 1], states) for place in range(half, tokens.shape[1])]
    return [[network(tokens)], [torch.cat(steps, 1)]]
"""
_ALONE = """\
import torch

import model as written

model = written.load()
logits = model(torch.zeros(2, 8, dtype=torch.long))  # (B, T) token ids -> (B, T, V)
print(tuple(logits.shape), model.generate(torch.zeros(1, 4, dtype=torch.long), 8).tolist())
"""
_TEXT = """\
import torch
from tokenizers import Tokenizer

import model as written

tokenizer, model = Tokenizer.from_file("tokenizer.json"), written.load()
prompt = torch.tensor([tokenizer.encode("The ", add_special_tokens=False).ids])
print(tokenizer.decode(model.generate(prompt, 100, temperature=0.8)[0].tolist()))
"""
_NOTE = (
    f"`{FILE}` needs torch and safetensors. Generation keeps a state per layer: a token costs one step. Texts of a"
    " batch have equal lengths."
)


class Source(ModelExporter):
    """Export as ``source``; see the module."""

    name = "source"
    kinds = frozenset({"backbone"})

    def write(self, subject: ModelSubject, folder: Path) -> Written:
        """See ``ModelExporter.write``."""
        write_text(folder / FILE, program(subject.model.structure, subject.inputs[0].below))
        save_file({name: tensor.contiguous() for name, tensor in subject.model.state_dict().items()}, folder / WEIGHTS)
        return Written(
            {"file": FILE, "weights": WEIGHTS},
            None,
            (_NOTE,),
        )

    def ask(self, folder: Path, probes: Sequence[Arrays]) -> list[list[Arrays]]:
        """See ``ModelExporter.ask``."""
        return ask(_LOAD, folder, probes)

    def usage(self, subject: ModelSubject, written: Written) -> Sequence[tuple[str, str]]:
        """See ``ModelExporter.usage``."""
        return (("With PyTorch and safetensors", _ALONE), *([("Text", _TEXT)] if subject.tokenizer else []))

    def library(self, written: Written) -> str:
        """See ``ModelExporter.library``."""
        return "pytorch"

    def versions(self) -> Mapping[str, str]:
        """See ``ModelExporter.versions``."""
        return {"torch": str(torch.__version__)}


SOURCE = Source()
