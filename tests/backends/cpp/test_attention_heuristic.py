"""How attention is cut into blocks."""

from aot.backends.cpp.attention_heuristic import attention_blocking


def rows(queries, heads, d, **options):
    return attention_blocking(queries, 512, d, d, heads=heads, **options).qb


def test_a_unit_of_a_narrow_type_has_twice_the_queries_while_they_stay_in_cache():
    assert rows(512, 16, 64) == 128
    assert rows(512, 16, 64, a_bytes=4) == 128
    assert rows(512, 16, 64, a_bytes=2) == 256
    assert rows(512, 16, 192, a_bytes=2) == 128
    assert rows(100, 16, 64, a_bytes=2) == 100
