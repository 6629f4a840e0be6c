"""The tokenizer of a checkpoint: built from a GGUF's vocabulary or read from `tokenizer.json`.

Gives text -> ids, ids -> bytes, and the raw bytes of every id for the grammar compiler. Works for byte-level
BPE, where each token is a byte string written in GPT-2's printable alphabet (Radford et al., 2019, `encoder.py`'s
byte-to-unicode table as documented by the `tokenizers` library). Knows nothing of chat formats.
"""

from __future__ import annotations

import functools
import json
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as RustTokenizer

from .errors import ModelFileError

if TYPE_CHECKING:
    from offseek.grammars import Vocabulary

    from .gguf_file import GGUFFile

# llama.cpp's token types
_CONTROL, _USER_DEFINED = 3, 4

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
# `tokenizer.ggml.pre` -> (split digits one by one first, regular expression)
_PRE_TOKENIZERS = {
    "default": (False, _GPT2), "gpt-2": (False, _GPT2), "smollm": (True, _GPT2), "codeshell": (True, _GPT2),
    "llama-bpe": (False, _LLAMA3), "llama3": (False, _LLAMA3), "llama-v3": (False, _LLAMA3),
    "smaug-bpe": (False, _LLAMA3), "qwen2": (False, _QWEN2), "deepseek-r1-qwen": (False, _QWEN2),
}  # fmt: skip


@functools.cache
def byte_alphabet() -> dict[str, int]:
    """Map each character of the printable alphabet to the byte it stands for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    for index, byte in enumerate(b for b in range(256) if b not in set(printable)):
        table[chr(256 + index)] = byte
    return table


class CheckpointTokenizer:
    """Text to ids and back for one checkpoint.

    backend:       the `tokenizers.Tokenizer`.
    special_ids:   every entry of `added_tokens`, whatever its `special` flag says.
    bos_token_id:  or None; `add_bos` says whether `encode(add_special_tokens=True)` puts it first.
    eos_token_ids: ids that end a reply.
    """

    def __init__(
        self,
        backend: RustTokenizer,
        *,
        eos_token_ids: Sequence[int],
        bos_token_id: int | None = None,
        add_bos: bool = False,
    ) -> None:
        self.backend = backend
        self.eos_token_ids = tuple(eos_token_ids)
        self.bos_token_id = bos_token_id
        self.add_bos = add_bos
        self._plain: RustTokenizer | None = None
        self._file: pathlib.Path | None = None  # a tokenizer.json with the same content
        added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(added)
        alphabet = byte_alphabet()
        self._bytes: list[bytes | None] = [None] * backend.get_vocab_size(with_added_tokens=True)
        for token, token_id in backend.get_vocab(with_added_tokens=True).items():
            if token_id >= len(self._bytes):
                self._bytes.extend([None] * (token_id + 1 - len(self._bytes)))
            if token_id in added:
                self._bytes[token_id] = added[token_id].content.encode()
            else:
                try:
                    self._bytes[token_id] = bytes([alphabet[char] for char in token])
                except KeyError:
                    raise ModelFileError(
                        f"token {token_id} ({token!r}) is not byte-level BPE; other vocabularies are not supported"
                    ) from None

    @classmethod
    def from_gguf(cls, gguf: GGUFFile) -> CheckpointTokenizer:
        """Rebuild the tokenizer from GGUF metadata. Raises ModelFileError for a kind that is not byte-level BPE."""
        meta = gguf.metadata
        kind, pre = meta.get("tokenizer.ggml.model"), meta.get("tokenizer.ggml.pre", "default")
        if kind != "gpt2":
            raise ModelFileError(
                f"{gguf.path}: tokenizer model {kind!r} is not supported (only 'gpt2', byte-level BPE)",
                path=str(gguf.path),
            )
        if pre not in _PRE_TOKENIZERS:
            raise ModelFileError(
                f"{gguf.path}: pre-tokenizer {pre!r} is not supported (known: {', '.join(sorted(_PRE_TOKENIZERS))})",
                path=str(gguf.path),
            )
        tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
        merges = [tuple(merge.split(" ", 1)) for merge in meta["tokenizer.ggml.merges"]]
        special = [i for i, kind in enumerate(types) if kind in (_CONTROL, _USER_DEFINED)]
        backend = RustTokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
        digits, pattern = _PRE_TOKENIZERS[pre]
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            ([pre_tokenizers.Digits(individual_digits=True)] if digits else [])
            + [
                pre_tokenizers.Split(Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        backend.decoder = decoders.ByteLevel()
        backend.add_tokens([AddedToken(tokens[i], special=types[i] == _CONTROL, normalized=False) for i in special])
        eos = [
            meta[f"tokenizer.ggml.{name}"]
            for name in ("eos_token_id", "eot_token_id")
            if f"tokenizer.ggml.{name}" in meta
        ]
        return cls(
            backend,
            eos_token_ids=dict.fromkeys(eos),  # type: ignore[arg-type]
            bos_token_id=meta.get("tokenizer.ggml.bos_token_id"),
            add_bos=bool(meta.get("tokenizer.ggml.add_bos_token", False)),
        )

    @classmethod
    def from_directory(
        cls, folder: pathlib.Path, *, eos_token_ids: Sequence[int], bos_token_id: int | None
    ) -> CheckpointTokenizer:
        """Read `tokenizer.json`; `tokenizer_config.json` tells whether a BOS goes first."""
        path = folder / "tokenizer.json"
        if not path.exists():
            raise ModelFileError(f"{folder} has no tokenizer.json", path=str(path))
        try:
            backend = RustTokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ModelFileError(f"{path} cannot be read: {error}", path=str(path)) from error
        backend.no_truncation()
        backend.no_padding()
        probe = backend.encode("a").ids
        made = cls(
            backend,
            eos_token_ids=eos_token_ids,
            bos_token_id=bos_token_id,
            add_bos=bos_token_id is not None and probe[:1] == [bos_token_id],
        )
        made._file = path
        return made

    @property
    def vocab_size(self) -> int:
        """Number of ids the tokenizer knows; the model's logits may be wider (padding)."""
        return len(self._bytes)

    def encode(self, text: str, *, add_special_tokens: bool = False, parse_special: bool = True) -> list[int]:
        """Return ids of `text`.

        add_special_tokens: put BOS first if the checkpoint asks for it.
        parse_special: special tokens written in the text become their ids; False encodes them as ordinary text, for
            text that is not trusted.
        """
        backend = self.backend if parse_special else self._plain_backend()
        ids: list[int] = backend.encode(text, add_special_tokens=False).ids
        if add_special_tokens and self.add_bos and self.bos_token_id is not None:
            return [self.bos_token_id, *ids]
        return ids

    def _plain_backend(self) -> RustTokenizer:
        if self._plain is None:
            source = json.loads(self.backend.to_str())
            source["added_tokens"] = []
            self._plain = RustTokenizer.from_str(json.dumps(source))
        return self._plain

    def token_bytes(self, token_id: int) -> bytes:
        """Bytes an id stands for; special tokens give the bytes of their name, unknown ids give b''."""
        if 0 <= token_id < len(self._bytes):
            return self._bytes[token_id] or b""
        return b""

    def decode_bytes(self, token_ids: Sequence[int], *, skip_special: bool = True) -> bytes:
        """Concatenate the bytes of ids, without special tokens by default."""
        return b"".join(self.token_bytes(i) for i in token_ids if not (skip_special and i in self.special_ids))

    def decode(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Return the text of ids; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(token_ids, skip_special=skip_special).decode("utf-8", "replace")

    def token_id(self, token: str) -> int | None:
        """Id of a token by its written form (special tokens by name), or None."""
        found: int | None = self.backend.token_to_id(token)
        return found

    def build_vocabulary(self, *, vocab_size: int) -> Vocabulary:
        """Vocabulary for `offseek.grammars.GrammarCompiler`; `vocab_size` is the width of the logits."""
        from offseek.grammars import Vocabulary

        # The grammars read a tokenizer file, and again (for the merges) when forced text is first spelled, so a file
        # made for them stays as long as this object.
        if self._file is None:
            folder = tempfile.mkdtemp(prefix="offseek-tokenizer-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._file = pathlib.Path(folder) / "tokenizer.json"
            self.backend.save(str(self._file))
        return Vocabulary.from_tokenizer_file(self._file, eos_token_ids=list(self.eos_token_ids), vocab_size=vocab_size)


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Parse a JSON object file. Raises ModelFileError when missing or damaged."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFileError(f"{path} is missing", path=str(path)) from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}", path=str(path)) from error
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} does not hold a JSON object", path=str(path))
    return value
