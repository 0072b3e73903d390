"""A tokenizer.json for other programs has our ids, and a name for the end of a document."""

from __future__ import annotations

import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from evodevo.tasks.text.published_tokenizer import END, end_token, tokenizer_json
from evodevo.tasks.text.tokenizers import ByteTokenizer, train_bpe

BYTES = ByteTokenizer()
PAIRS = train_bpe([b"the cat and the dog and the cow " * 40], 280)
TEXTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=40)


@given(TEXTS)
def test_other_programs_read_the_same_ids(text: str) -> None:
    for own in (BYTES, PAIRS):
        other = tokenizers.Tokenizer.from_str(tokenizer_json(own))
        ids = other.encode(text, add_special_tokens=False).ids
        assert ids == own.encode(text).tolist()
        assert other.decode(ids) == text


def test_the_end_of_a_document_has_a_name() -> None:
    for own in (BYTES, PAIRS):
        assert end_token(own) == END
        other = tokenizers.Tokenizer.from_str(tokenizer_json(own))
        assert other.token_to_id(END) == own.separator
        assert other.get_vocab_size() == own.vocabulary
