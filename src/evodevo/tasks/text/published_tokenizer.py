"""A tokenizer as other programs read it: a tokenizer.json whose end of a document has a name."""

from __future__ import annotations

import json

from evodevo.tasks.text.tokenizers import Tokenizer, hugging_face_json

END = "<|endoftext|>"
_NUL_LETTER = "Ā"
"""The letter of the byte NUL in byte-level vocabularies."""


def tokenizer_json(tokenizer: Tokenizer) -> str:
    """A tokenizer.json with the same ids.

    The token of the byte NUL, which ends documents and which no document contains, is called ``<|endoftext|>``: other
    libraries take the ends of texts from a text that holds that name.

    Raises:
        UsageError: The tokenizer is of a kind that another package added.
    """
    values = json.loads(hugging_face_json(tokenizer))
    vocabulary = values.get("model", {}).get("vocab")
    end = tokenizer.separator
    if end is None or not isinstance(vocabulary, dict) or vocabulary.get(_NUL_LETTER) != end or END in vocabulary:
        return hugging_face_json(tokenizer)
    del vocabulary[_NUL_LETTER]
    vocabulary[END] = end
    values["model"]["vocab"] = dict(sorted(vocabulary.items(), key=lambda entry: entry[1]))
    known = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    values["added_tokens"] = [{"id": end, "content": END, **known}, *(values.get("added_tokens") or [])]
    return json.dumps(values, ensure_ascii=False)


def end_token(tokenizer: Tokenizer) -> str | None:
    """The name of the token that ends a document, in ``tokenizer_json``; None where there is none."""
    if tokenizer.separator is None:
        return None
    import tokenizers

    name = tokenizers.Tokenizer.from_str(tokenizer_json(tokenizer)).id_to_token(tokenizer.separator)
    return None if name is None else str(name)
