"""Convolutions to few channels from many: vectors run along k where that takes fewer loads."""

from __future__ import annotations

import subprocess

import pytest

from aot.backends.cpp.toolchain import find_toolchain
from tests.backends.cpp.tmpl import test_conv as conv
from tests.backends.cpp.tmpl.build import INCLUDE, LEVELS, levels

CASES = {
    "taps": conv.full(conv.square(128, 8, 3, padding=1), 2, (1, 9, 7), kb=128),
    "groups": conv.full(conv.square(136, 5, 3, groups=2, stride=2), 1, (1, 12, 11), kb=136),
    "chunks": conv.full(conv.square(1040, 7, 1), 1, (1, 5, 7), mb=7, mc=7),
    "ordered": conv.full(conv.square(128, 8, 5, dilation=2, padding=4), 2, (1, 9, 8), mb=50),
    "copied": conv.full(conv.square(64, 3, 3, padding=1), 2, (1, 6, 9), channels_last=False),
    "turned": conv.full(
        conv.square(64, 8, 3, padding=1), 2, (1, 19, 9), "float32", False, turned=True
    ),
}
CHOICE = """
#include "aot/tmpl/dots.h"
using namespace aot::tmpl;
constexpr bool kEight = Simd<float>::kLanes == 8;
static_assert(takes_dots<float>(8, 128) == kEight && takes_dots<float>(1, 296) == kEight);
// More columns than a vector has, runs that are short, or end within a vector, and doubles.
static_assert(!takes_dots<float>(9, 128) && !takes_dots<float>(8, 64));
static_assert(!takes_dots<float>(8, 300) && !takes_dots<double>(4, 128));
"""


@pytest.mark.parametrize("level", [level for level in levels() if level != "x86-64-v2"])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_few_outputs_of_many_channels(name, pieces, level):
    conv.check_case(level, CASES[name], pieces)


@pytest.mark.parametrize("level", LEVELS)
def test_dots_are_for_columns_that_a_vector_of_eight_holds_and_for_long_runs(level):
    tools = find_toolchain()
    flags = (*tools.compile_flags(level), "-fsyntax-only", f"-I{INCLUDE}", "-xc++", "-")
    subprocess.run([*tools.command, *flags], input=CHOICE, text=True, check=True)
