"""The format ``hf``: a folder that transformers loads, as a family of its own where the backbone is one exactly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from evodevo.errors import missing_extra
from evodevo.export.folder import write_json
from evodevo.export.models.base import Arrays, ModelExporter, ModelSubject, Written
from evodevo.export.models.process import ask
from evodevo.export.verify import TOLERANCE
from evodevo.tasks.text.published_tokenizer import end_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evodevo.backbone.hugging_face.families import NativeFamily

FOREIGN = ("auto_map", "trust_remote_code")
"""Keys of a configuration that would let a folder name code; none is written."""

# The whole text; with the cache, first half, then token by token; padded on the left; and beams, whose result is not
# compared, but which must run.
_LOAD = """\
import transformers
transformers.logging.set_verbosity_error()
{register}
from transformers import AutoModelForCausalLM
network = AutoModelForCausalLM.from_pretrained(place, local_files_only=True).eval()
def steps(tokens):
    cache, half, found = None, max(1, tokens.shape[1] // 2), []
    pieces = [tokens[:, :half]] + [tokens[:, at : at + 1] for at in range(half, tokens.shape[1])]
    for piece in pieces:
        output = network(piece, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        found.append(output.logits)
    return torch.cat(found, 1)
def padded(tokens):
    pads = tokens.new_zeros(tokens.shape[0], 3)
    mask = torch.cat([pads, torch.ones_like(tokens)], 1)
    places = (mask.cumsum(1) - 1).clamp_min(0)
    return network(torch.cat([pads, tokens], 1), attention_mask=mask, position_ids=places).logits[:, 3:]
def answers(tokens):
    network.generate(tokens, max_new_tokens=3, num_beams=2, do_sample=False, pad_token_id=0, eos_token_id=None)
    return [[network(tokens).logits], [steps(tokens)], [padded(tokens)]]
"""
_ALONE = """\
{register}from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(".")
tokenizer = AutoTokenizer.from_pretrained(".")
batch = tokenizer(["The ", "Once upon a time"], padding=True, return_tensors="pt")
for text in tokenizer.batch_decode(model.generate(**batch, max_new_tokens=50, do_sample=True)):
    print(text)
"""
_TOKENS = """\
{register}import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(".")
print(model.generate(torch.zeros(1, 4, dtype=torch.long), max_new_tokens=8).tolist())
"""
_REGISTER = "import evodevo.hf  # registers the model type; no code of this folder is run"


class HuggingFace(ModelExporter):
    """Export as ``hf``; see the module."""

    name = "hf"
    kinds = frozenset({"backbone"})

    def check(self, subject: ModelSubject) -> None:
        """See ``ModelExporter.check``; transformers must be installed."""
        super().check(subject)
        if find_spec("transformers") is None:
            raise missing_extra("transformers", "hf", "an export to hf")

    def write(self, subject: ModelSubject, folder: Path) -> Written:
        """See ``ModelExporter.write``."""
        with _quiet():
            native, refused = self._native(subject)
            model = native or self._own(subject)
            self._ends(subject, model)
            model.save_pretrained(folder)
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        write_json(folder / "config.json", {name: value for name, value in values.items() if name not in FOREIGN})
        if subject.tokenizer is not None:
            self._tokenizer(subject, folder)
        kind = str(model.config.model_type)
        if native is not None:
            note = f"The backbone is exactly of the family `{kind}`: transformers alone loads it."
        else:
            why = "It is of no family of transformers"
            if refused:
                why = f"This release of transformers cannot hold it ({'; '.join(refused)})"
            note = f"{why}: `import evodevo.hf` registers its model type. No remote code."
        facts = {"model_type": kind, "native": native is not None}
        return Written(facts, None, (note,), alone=native is not None)

    def _native(self, subject: ModelSubject) -> tuple[Any, list[str]]:
        """The model as a family of transformers, if one gives its logits, else None; and why families do not."""
        from evodevo.backbone.hugging_face.families import families

        refused = []
        for family in families(subject.model):
            try:
                model = _built(family)
                _check(model, subject)
            except _UnsuitableError as error:
                refused.append(f"{family.model_type}: {error}")
            else:
                return model, []
        return None, refused

    def _own(self, subject: ModelSubject) -> Any:
        from evodevo.backbone.hugging_face.register import EvodevoConfig, EvodevoForCausalLM

        structure = subject.model.structure
        space, genome = structure.parse()
        config = EvodevoConfig(
            genome=space.print(genome),
            space=structure.space.model_dump(mode="json"),
            vocab_size=subject.inputs[0].below,
            tied=structure.tied,
            context_length=subject.context_length,
            architectures=[EvodevoForCausalLM.__name__],
        )
        model = EvodevoForCausalLM(config)
        model.backbone.load_state_dict(subject.model.state_dict())
        return model.eval()

    @staticmethod
    def _ends(subject: ModelSubject, model: Any) -> None:
        """Tokens that begin, end and fill texts."""
        end = None if subject.tokenizer is None else subject.tokenizer.separator
        for settings in (model.config, model.generation_config):
            settings.bos_token_id, settings.eos_token_id, settings.pad_token_id = None, end, end

    @staticmethod
    def _tokenizer(subject: ModelSubject, folder: Path) -> None:
        end = end_token(subject.tokenizer)  # type: ignore[arg-type]
        values: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "padding_side": "left",
            "model_input_names": ["input_ids", "attention_mask"],
        }
        if end is not None:
            values |= {"eos_token": end, "pad_token": end}
        write_json(folder / "tokenizer_config.json", values)

    def ask(self, folder: Path, probes: Sequence[Arrays]) -> list[list[Arrays]]:
        """See ``ModelExporter.ask``."""
        native = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] != "evodevo"
        load = _LOAD.format(register="" if native else "import evodevo.hf")
        return ask(load, folder, probes, without_evodevo=native)

    def usage(self, subject: ModelSubject, written: Written) -> Sequence[tuple[str, str]]:
        """See ``ModelExporter.usage``."""
        register = "" if written.facts["native"] else f"{_REGISTER}\n"
        has_end = subject.tokenizer is not None and subject.tokenizer.separator is not None
        return (("With transformers", (_ALONE if has_end else _TOKENS).format(register=register)),)

    def library(self, written: Written) -> str:
        """See ``ModelExporter.library``."""
        return "transformers"

    def versions(self) -> Mapping[str, str]:
        """See ``ModelExporter.versions``."""
        return {"torch": str(torch.__version__), "transformers": metadata.version("transformers")}


class _UnsuitableError(Exception):
    """A family of the installed transformers does not compute what the backbone does."""


def _built(family: NativeFamily) -> Any:
    """The family's model with these weights.

    Raises:
        _UnsuitableError: This transformers does not have it, or has it with other parameters.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family.model_type, **family.values))
        missing, unknown = model.load_state_dict(dict(family.weights), strict=False)
    except (ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise _UnsuitableError(_first_line(error)) from error
    tied = {"lm_head.weight"} if family.values["tie_word_embeddings"] else set()
    if others := sorted({*unknown, *(set(missing) - tied)}):
        raise _UnsuitableError(f"it has other parameters ({', '.join(others[:3])})")
    return model.eval()


def _check(model: Any, subject: ModelSubject) -> None:
    """Refuse a model of transformers that does not give the logits of the network, or cannot generate.

    Raises:
        _UnsuitableError: It does not.
    """
    for probe in subject.probes():
        (wanted,) = subject.answer(probe)
        tokens = torch.from_numpy(probe[0])
        try:
            with torch.no_grad():
                whole = model(tokens).logits
                model.generate(tokens, max_new_tokens=2, do_sample=False, pad_token_id=0, eos_token_id=None)
        # Code of transformers, of any release: a family without its optional kernels, an argument of another version,
        # a cache of another class. None of it may end the export, which can take the model type evodevo instead.
        except Exception as error:
            raise _UnsuitableError(_first_line(error)) from error
        largest = float(np.abs(whole.float().numpy() - wanted).max())
        if largest > TOLERANCE * max(1.0, float(np.abs(wanted).max())):
            raise _UnsuitableError(f"its logits differ by {largest:.2g}")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' messages and bars."""
    from transformers import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        logging.enable_progress_bar()


HF = HuggingFace()
