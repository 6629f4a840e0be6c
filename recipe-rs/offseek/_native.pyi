"""Types of the compiled extension `offseek._native` (built from `recipe-rs/python`)."""

import os
from collections.abc import Sequence

from typing_extensions import Buffer

# ---- tokenizer (recipe-rs/chat/src/tokenizer) ------------------------------------------------------------

class Tokenizer:
    """A byte-level BPE tokenizer read from a `tokenizer.json`; immutable, shared freely between threads.

    Ids are those of Hugging Face `tokenizers` for every text. What a file asks for beyond byte-level BPE
    (other models, normalizers, pre-tokenizers) is refused by name when it is loaded (`TokenizerError`, a RuntimeError).
    Texts with lone surrogates raise UnicodeEncodeError.
    """

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> Tokenizer:
        """Load a `tokenizer.json` file."""
    @staticmethod
    def from_str(text: str) -> Tokenizer:
        """Load the contents of a `tokenizer.json` file."""
    @staticmethod
    def from_bytes(data: bytes) -> Tokenizer:
        """Load the UTF-8 contents of a `tokenizer.json` file."""
    @staticmethod
    def from_pretrained(identifier: str, revision: str | None = None, token: str | None = None) -> Tokenizer:
        """Load `tokenizer.json` of a Hugging Face repository through `huggingface_hub` (and its cache).

        Raises ImportError without that package (extra `engine`), TokenizerError or RuntimeError when the file cannot be had.
        """
    def encode(self, text: str) -> list[int]:
        """Encode with the full vocabulary: spellings of added tokens become those tokens.

        Nothing is added in front or behind. Prompts are not encoded this way but by the encodings' `encode`,
        where text can never become a special token.
        """
    def encode_ordinary(self, text: str) -> list[int]:
        """Encode without the added vocabulary: every character is plain text."""
    def encode_into(self, text: str, buffer: Buffer, *, ordinary: bool = False) -> int:
        """Encode into the front of a writable C-contiguous uint32 buffer (numpy, `array("I")`); return the count.

        Raises BufferError, with nothing written, when the buffer is too small or of another kind.
        """
    def pre_tokenize(self, text: str) -> list[str]:
        """The words that BPE works on, in order; together they are `text` (the added vocabulary plays no part)."""
    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids; invalid UTF-8 becomes U+FFFD per maximal subpart, ids outside the vocabulary nothing.

        An added token stands for its spelling and separates the byte runs around it.
        """
    def token_bytes(self, id: int) -> bytes | None:
        """Bytes of a token (an added token: its spelling in UTF-8); None outside the vocabulary."""
    def special_id(self, spelling: str) -> int | None:
        """Id of the added token with exactly this spelling."""
    def is_added(self, id: int) -> bool:
        """Whether the id is one of the file's added tokens."""
    @property
    def added_tokens(self) -> dict[str, int]:
        """Spelling to id of every added token, by ascending id."""
    @property
    def vocab_size(self) -> int:
        """One more than the largest token id, added tokens included."""
