"""Bookkeeping of KV blocks: who holds which, and which finished blocks can serve another prompt's prefix.

A full block is known by a digest of all tokens up to its end, so equal digests mean equal keys and values. Blocks that
nobody holds stay findable until they are evicted, least recently used first. Knows block numbers only, no tensors.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence as Seq

from .errors import OutOfBlocksError

ROOT_DIGEST = b""


def chain_digest(previous: bytes, token_ids: Seq[int]) -> bytes:
    """16-byte digest of one full block of tokens that follows the prefix with digest `previous`."""
    return hashlib.blake2b(previous + array("q", token_ids).tobytes(), digest_size=16).digest()


class BlockPool:
    """Allocates, shares and evicts blocks 0 .. num_blocks - 1."""

    def __init__(self, *, num_blocks: int, block_size: int, reuse_prefixes: bool = True) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._reuse = reuse_prefixes
        self._unused = list(range(num_blocks - 1, -1, -1))
        self._holders = [0] * num_blocks
        self._digest_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # findable, held by nobody, oldest first

    @property
    def num_free(self) -> int:
        """Blocks that `allocate` can hand out now."""
        return len(self._unused) + len(self._idle)

    def match_prefix(self, token_ids: Seq[int]) -> tuple[list[int], bytes]:
        """Take hold of the longest run of cached full blocks at the start of `token_ids`.

        Returns their numbers and the digest of the last one. At least one token is left over, since its logits have to
        be computed.
        """
        blocks: list[int] = []
        digest = ROOT_DIGEST
        for start in range(0, len(token_ids) - self.block_size, self.block_size) if self._reuse else ():
            longer = chain_digest(digest, token_ids[start : start + self.block_size])
            block = self._block_of.get(longer)
            if block is None:
                break
            digest = longer
            blocks.append(block)
        for block in blocks:
            self._idle.pop(block, None)
            self._holders[block] += 1
        return blocks, digest

    def allocate(self, count: int) -> list[int]:
        """Hand out `count` blocks. Raises OutOfBlocksError, taking none, when fewer are free."""
        if count > self.num_free:
            raise OutOfBlocksError(needed=count, free=self.num_free)
        blocks = []
        for _ in range(count):
            if self._unused:
                block = self._unused.pop()
            else:
                block, _ = self._idle.popitem(last=False)
                del self._block_of[self._digest_of.pop(block)]
            self._holders[block] = 1
            blocks.append(block)
        return blocks

    def publish(self, block: int, digest: bytes) -> bool:
        """Make a full block findable under the digest of the tokens up to its end; False if another one is already."""
        if not self._reuse or digest in self._block_of or block in self._digest_of:
            return False
        self._block_of[digest] = block
        self._digest_of[block] = digest
        return True

    def unpublish(self, block: int) -> None:
        """Forget what a block holds: it was never computed."""
        digest = self._digest_of.pop(block, None)
        if digest is not None:
            del self._block_of[digest]
            if block in self._idle:
                del self._idle[block]
                self._unused.append(block)

    def release(self, blocks: Seq[int]) -> None:
        """Let go of blocks. Later blocks of a sequence become evictable before earlier ones."""
        for block in reversed(blocks):
            self._holders[block] -= 1
            if self._holders[block] == 0:
                if block in self._digest_of:
                    self._idle[block] = None
                else:
                    self._unused.append(block)

    def clear_prefixes(self) -> None:
        """Forget every cached prefix that nobody holds."""
        for block in self._idle:
            del self._block_of[self._digest_of.pop(block)]
            self._unused.append(block)
        self._idle.clear()
