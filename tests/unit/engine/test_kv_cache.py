"""Block bookkeeping: sharing, eviction order, and digests of whole prefixes."""

from __future__ import annotations

import pytest
from offseek.engine import OutOfBlocksError
from offseek.engine.kv_cache import ROOT_DIGEST, BlockPool, chain_digest

SIZE = 16


def publish(pool: BlockPool, tokens: list[int], blocks: list[int]) -> None:
    digest = ROOT_DIGEST
    for index, block in enumerate(blocks):
        digest = chain_digest(digest, tokens[index * SIZE : (index + 1) * SIZE])
        pool.publish(block, digest)


def test_allocation_is_all_or_nothing() -> None:
    pool = BlockPool(num_blocks=3, block_size=SIZE)
    held = pool.allocate(2)
    with pytest.raises(OutOfBlocksError) as caught:
        pool.allocate(2)
    assert (caught.value.needed, caught.value.free, pool.num_free) == (2, 1, 1)
    pool.release(held)
    assert pool.num_free == 3
    assert sorted(pool.allocate(3)) == [0, 1, 2]


def test_prefix_is_found_while_held_and_after_release() -> None:
    pool = BlockPool(num_blocks=4, block_size=SIZE)
    tokens = list(range(40))
    blocks = pool.allocate(3)
    publish(pool, tokens, blocks[:2])
    assert pool.match_prefix(tokens)[0] == blocks[:2]
    pool.release(blocks[:2])
    pool.release(blocks)
    assert pool.num_free == 4
    found, digest = pool.match_prefix(tokens)
    assert found == blocks[:2]
    assert digest == chain_digest(chain_digest(ROOT_DIGEST, tokens[:16]), tokens[16:32])
    assert pool.num_free == 2  # found blocks are held


def test_a_block_is_known_by_its_whole_prefix_not_by_its_own_tokens() -> None:
    pool = BlockPool(num_blocks=4, block_size=SIZE)
    same = [7] * SIZE
    publish(pool, [1] * SIZE + same, pool.allocate(2))
    assert pool.match_prefix([2] * SIZE + same + [0])[0] == []
    assert pool.match_prefix(same + [0])[0] == []


def test_at_least_one_token_is_left_to_compute() -> None:
    pool = BlockPool(num_blocks=4, block_size=SIZE)
    tokens = list(range(32))
    publish(pool, tokens, pool.allocate(2))
    assert [len(pool.match_prefix(tokens[:n])[0]) for n in (15, 16, 17, 32)] == [0, 0, 1, 1]
    assert len(pool.match_prefix([*tokens, 99])[0]) == 2


def test_eviction_takes_the_least_recently_used_and_ends_of_prefixes_first() -> None:
    pool = BlockPool(num_blocks=4, block_size=SIZE)
    a, b = list(range(33)), list(range(100, 133))
    for tokens in (a, b):
        blocks = pool.allocate(2)
        publish(pool, tokens, blocks)
        pool.release(blocks)
    pool.release(pool.match_prefix(a)[0])  # a is used again, so b is the older one
    pool.allocate(1)
    assert len(pool.match_prefix(b)[0]) == 1  # its second block went
    assert len(pool.match_prefix(a)[0]) == 2


def test_published_twice_keeps_the_first_and_reuse_can_be_off() -> None:
    pool = BlockPool(num_blocks=3, block_size=SIZE)
    tokens = list(range(17))
    first, second = pool.allocate(2)
    publish(pool, tokens, [first])
    publish(pool, tokens, [second])
    assert pool.match_prefix(tokens)[0] == [first]
    off = BlockPool(num_blocks=2, block_size=SIZE, reuse_prefixes=False)
    publish(off, tokens, off.allocate(1))
    assert off.match_prefix(tokens)[0] == []


def test_clearing_forgets_only_what_nobody_holds() -> None:
    pool = BlockPool(num_blocks=4, block_size=SIZE)
    a, b = list(range(17)), list(range(50, 67))
    held, idle = pool.allocate(2)
    publish(pool, a, [held])
    publish(pool, b, [idle])
    pool.release([idle])
    pool.clear_prefixes()
    assert pool.match_prefix(b)[0] == []
    assert pool.match_prefix(a)[0] == [held]
    assert pool.num_free == 3
