"""Pages of headers: declarations with the comments above them, no bodies, nothing private."""

from __future__ import annotations

import re

from tests.blocks import ROOT
from tools.site.headers import markdown, prose, sections, without_bodies

C = """/* The interface.
 *
 *   first();
 */
#ifndef A_H_
#define A_H_
#include <stdint.h>
#define AOT_X 1u

/* ------------- status */

/* A failure; see aot_code. */
typedef struct aot_status aot_status;

/* Its code (0 .. n) is {one}. */
AOT_API int aot_status_code(const aot_status* status,
                            size_t index);
AOT_API void aot_also(void);
/* ------------- names
 *
 * By name. */
typedef void (*aot_fn)(void* context);

#endif
"""

CPP = """namespace aot {

// A pair.
class Pair {
 public:
  // Makes one.
  explicit Pair(const Options& options = {}) : a_(options.a), b_{1} { check(); }
  int a() const { return a_; }  // NOLINT: short
  std::vector<int> list = {};

 private:
  void check() { if (a_) throw 1; }
  int a_;
};

// Doubles.
template <typename T>
constexpr T twice(T x) {
  return "}" ? x * 2 : x;
}

}  // namespace aot
"""


def test_sections_and_items_of_c() -> None:
    begin, status, names = sections(C)
    assert begin.prose == "The interface.\n\n  first();"
    assert [item.name for item in begin.items] == ["AOT_X"]
    assert (status.title, [item.name for item in status.items]) == (
        "status",
        ["aot_status", "aot_status_code"],
    )
    assert status.items[1].prose == "Its code (0 .. n) is {one}."
    assert status.items[1].code.endswith("size_t index);\nAOT_API void aot_also(void);")
    assert (names.prose, names.items[0].name) == ("By name.", "aot_fn")


def test_classes_have_no_bodies_and_nothing_private() -> None:
    (only,) = sections(CPP)
    pair, twice = only.items
    assert pair.name == "Pair"
    assert pair.code == (
        "class Pair {\n  // Makes one.\n  explicit Pair(const Options& options = {});\n"
        "  int a() const;\n  std::vector<int> list = {};\n};"
    )
    assert (twice.name, twice.prose) == ("twice", "Doubles.")
    assert twice.code == "template <typename T>\nconstexpr T twice(T x);"


def test_values_and_enumerations_stay() -> None:
    for code in ("enum a {\n  B = 0, /* b */\n};", "struct S {\n  int x = {};\n};", "int f(int);"):
        assert without_bodies(code) == code


def test_prose_marks_code_and_escapes_signs() -> None:
    assert prose("See aot_code and run(); `x` is * or _.", "c") == (
        "See `aot_code` and `run()`; `x` is \\* or \\_."
    )
    assert prose("Rules:\n  - one\n    more\n  - two", "c") == "Rules:\n\n- one more\n- two"
    assert prose("So:\n\n  f(x);", "cpp") == "So:\n\n```cpp\nf(x);\n```"


def test_every_function_of_the_interface_is_there() -> None:
    path = "cpp/include/aot/abi.h"
    text = (ROOT / path).read_text(encoding="utf-8")
    page = markdown("C", "c", [(path, text)])
    functions = set(re.findall(r"^AOT_API [^;(]*?(\w+)\(", text, re.MULTILINE))
    assert len(functions) > 60
    for name in functions:
        assert re.search(rf"^AOT_API [^\n]*\b{name}\(", page, re.MULTILINE), name


def test_bodies_and_private_members_of_ours_are_gone() -> None:
    for name in ("aot.hpp", "result.hpp", "tensor.hpp", "operator.hpp"):
        text = (ROOT / "cpp/include/aot" / name).read_text(encoding="utf-8")
        page = markdown("C++", "cpp", [(name, text)])
        assert not re.search(r"^\s+return ", page.partition("### ")[2], re.MULTILINE), name
        assert "private:" not in page
