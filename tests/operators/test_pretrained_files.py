"""Folders of pretrained models from a stranger: what their configurations may not ask for."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import DataError, EvodevoError, UnsafeFileError
from evodevo.operators.pretrained.files import check_stated
from evodevo.operators.pretrained.spec import LARGEST_CONFIG, MAX_LAYERS, read_config, read_sizes
from evodevo.storage.tensor_header import MAX_HEADER_BYTES

BERT = {
    "model_type": "bert",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 50,
    "max_position_embeddings": 20,
}


def model(folder: Path, elements: int = 10_000, **more: Any) -> Path:
    """A folder with a configuration, and weights of one tensor of zeros."""
    (folder / "config.json").write_text(json.dumps(BERT | more))
    header = json.dumps({"w": {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4 * elements))
    return folder


def test_an_ordinary_configuration_is_read(tmp_path: Path) -> None:
    folder = model(tmp_path, num_hidden_layers=MAX_LAYERS, attn_implementation="sdpa", text_config={})
    assert read_sizes(str(folder)).layers == MAX_LAYERS
    check_stated(model(tmp_path))


@pytest.mark.parametrize("part", [None, "text_config", "vision_config"])
@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        ({"auto_map": {"AutoModel": "evil.Model"}}, UnsafeFileError, "the key 'auto_map'"),
        ({"custom_pipelines": {"a": {"impl": "evil.Pipeline"}}}, UnsafeFileError, "the key 'custom_pipelines'"),
        ({"_attn_implementation": "stranger/kernels"}, UnsafeFileError, "the key '_attn_implementation'"),
        ({"quantization_config": {"bits": 4}}, DataError, "without quantisation"),
    ],
    ids=["auto_map", "pipelines", "kernels", "quantised"],
)
def test_code_and_quantisation_are_refused(
    part: str | None, more: dict[str, Any], kind: type[EvodevoError], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        read_config(model(tmp_path, **(more if part is None else {part: more})))


@pytest.mark.parametrize("layers", [MAX_LAYERS + 1, 65_536, 0, -1, True, 2.0, "2", None])
def test_numbers_of_layers_that_no_model_has_are_refused(layers: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="num_hidden_layers"):
        read_sizes(str(model(tmp_path, num_hidden_layers=layers)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{}" + b" " * LARGEST_CONFIG, "at most 1,048,576"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "64"),
        (b'{"a": 1' + b"0" * 5_000 + b"}", "digits"),
        (b'{"a": NaN}', "config.json"),
        (b"[]", "config.json"),
    ],
    ids=["size", "depth", "digits", "nan", "no object"],
)
def test_configurations_have_bounds(text: bytes, words: str, tmp_path: Path) -> None:
    (model(tmp_path) / "config.json").write_bytes(text)
    with pytest.raises(DataError, match=words):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("length", "words"),
    [(MAX_HEADER_BYTES + 1, "a header of"), (2**62, "not a safetensors file")],
    ids=["long", "more"],
)
def test_a_header_is_not_read_beyond_its_bound(length: int, words: str, tmp_path: Path) -> None:
    file = model(tmp_path) / "model.safetensors"
    with file.open("wb") as written:  # a sparse file: it states a gigabyte and takes a page
        written.write(struct.pack("<Q", length))
        written.truncate(2**30)
    with pytest.raises(DataError, match=words):
        check_stated(tmp_path)


def test_a_configuration_of_a_larger_model_than_the_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="do not belong together"):
        check_stated(model(tmp_path, vocab_size=2**20, hidden_size=64))


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text(json.dumps(BERT))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(UnsafeFileError, match="outside of"):
        read_config(folder)
