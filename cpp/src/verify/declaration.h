// What kernels say of themselves: declarations at the end of an entry of code (docs/format.md).
#ifndef AOT_SRC_VERIFY_DECLARATION_H_
#define AOT_SRC_VERIFY_DECLARATION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtype.h"
#include "expr.h"
#include "plan.h"
#include "safetensors.h"

namespace aot_rt {

// A variable of a declaration's expressions.
struct DeclaredDim {
  Range range;
  int64_t multiple_of = 1;
};

struct DeclaredRelation {
  Expr left;
  Relation relation = Relation::kEqual;
  Expr right;
};

struct DeclaredBuffer {
  const DType* dtype = nullptr;
  Expr bytes;  // from the buffer's beginning: no other is touched
  bool written = false;
};

// What a kernel promises: called with these sizes and this work or grid, for any values of the
// variables in their ranges for which the relations hold, it touches nothing but these bytes,
// whatever they are, and ends.
struct Declaration {
  std::string name;
  std::vector<DeclaredDim> dims;
  std::vector<DeclaredRelation> relations;
  std::vector<Expr> sizes;
  std::vector<DeclaredBuffer> buffers;
  Expr scratch;
  Expr work;                 // of a library's kernel; of device code instead:
  std::array<Expr, 3> grid;  // blocks per dimension
  int32_t threads = 0;
  int64_t shared = 0;
  int64_t scratch_alignment = 1;
  bool faults = false;
  bool waits = false;
};

// The text of the declarations of an entry of code; nothing when it has none. Throws
// CORRUPT_PACKAGE.
std::optional<Bytes> declarations_in(const Entry& entry);

// Whether code that is to be loaded, from a copy of its entry, declares what its launches were
// proved with. `proved`: nothing for code without declarations. Throws CORRUPT_PACKAGE: the file
// was written to since.
void check_declarations(const Entry& copy, const std::string* proved);

// What the text says: of a library's kernels in the order of its table, of device code one. Throws
// CORRUPT_PACKAGE, or UNSUPPORTED for an element type that this runtime does not know.
std::vector<Declaration> parse_declarations(Bytes text, const Entry& entry, bool library);

// The entry's bytes without its declarations.
Bytes code_of(const Entry& entry);

}  // namespace aot_rt

#endif  // AOT_SRC_VERIFY_DECLARATION_H_
