#include "verify/verify.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bound_sizes.h"
#include "error.h"
#include "verify/declaration.h"
#include "verify/lifetimes.h"
#include "verify/prover.h"
#include "verify/rules.h"

namespace aot_rt {
namespace {

constexpr int64_t kDeclaringMinor = 1;  // of the format that has declarations

// The declarations of a program's kernels: one list for each distinct one of its libraries, or one
// for device code. Empty: some code has none.
using Declared = std::vector<std::vector<Declaration>>;

// Reads what a program's code declares, and keeps the text with the program.
class Reader {
 public:
  Reader(const Plan& plan, Program* program, const std::string& where)
      : plan_(plan), program_(*program), where_(where) {}

  Declared read() {
    if (program_.kernels.empty() && program_.libraries.empty()) return {{}};
    const bool own_code = !program_.kernels.empty() && program_.kernels[0].entry != nullptr;
    return own_code ? device_code() : libraries();
  }

 private:
  const std::string* text(const Entry& entry) {
    const std::optional<Bytes> found = declarations_in(entry);
    if (found) {
      std::string& copy = program_.declarations[&entry];
      copy.assign(reinterpret_cast<const char*>(found->data), found->size);
      return &copy;
    }
    if (plan_.minor >= kDeclaringMinor) {
      fail(AOT_CORRUPT_PACKAGE, where_, ": the code '", entry.name,
           "' does not declare what its kernels touch, as format 1.", plan_.minor, " demands");
    }
    return nullptr;
  }

  static std::vector<Declaration> parse(const std::string& text, const Entry& entry, bool library) {
    const auto* data = reinterpret_cast<const uint8_t*>(text.data());
    return parse_declarations({data, text.size()}, entry, library);
  }

  Declared libraries() {
    Declared result;
    std::set<std::string_view> read;
    for (const Library& library : program_.libraries) {
      const std::string* found = text(*library.entry);
      if (found == nullptr) return {};
      if (!read.insert(*found).second) continue;
      result.push_back(parse(*found, *library.entry, true));
      check_names(*library.entry, result.back());
    }
    return result;
  }

  void check_names(const Entry& entry, const std::vector<Declaration>& declared) const {
    if (declared.size() != program_.kernels.size()) {
      fail(AOT_CORRUPT_PACKAGE, where_, ": '", entry.name, "' declares ", declared.size(),
           " kernels, the plan has ", program_.kernels.size());
    }
    for (size_t i = 0; i < declared.size(); ++i) {
      if (declared[i].name != program_.kernels[i].name) wrong_name(entry, declared[i], i);
    }
  }

  [[noreturn]] void wrong_name(const Entry& entry, const Declaration& declared, size_t id) const {
    fail(AOT_CORRUPT_PACKAGE, where_, ".kernels[", id, "] is '", program_.kernels[id].name, "', '",
         entry.name, "' declares '", declared.name, "'");
  }

  Declared device_code() {
    Declared result(1);
    for (size_t i = 0; i < program_.kernels.size(); ++i) {
      const Kernel& kernel = program_.kernels[i];
      const std::string* found = text(*kernel.entry);
      if (found == nullptr) return {};
      std::vector<Declaration> declared = parse(*found, *kernel.entry, false);
      if (declared.size() != 1) {
        fail(AOT_CORRUPT_PACKAGE, where_, ": '", kernel.entry->name, "' declares ", declared.size(),
             " kernels, must be one");
      }
      if (declared[0].name != kernel.symbol && declared[0].name != kernel.name) {
        wrong_name(*kernel.entry, declared[0], i);
      }
      result[0].push_back(std::move(declared[0]));
    }
    return result;
  }

  const Plan& plan_;
  Program& program_;
  const std::string& where_;
};

// All sizes of a program without dims.
class Sizes final : public BoundSizes {
 public:
  using BoundSizes::BoundSizes;
};

class Verifier {
 public:
  explicit Verifier(Plan* plan) : plan_(*plan) {}

  void verify() {
    plan_.declared = true;
    for (size_t i = 0; i < plan_.programs.size(); ++i) {
      Program& program = plan_.programs[i];
      const std::string where = cat("plan.programs[", i, "]");
      const Declared declared = Reader(plan_, &program, where).read();
      program.declared = !declared.empty();
      plan_.declared = plan_.declared && program.declared;
      verify(plan_, where, declared, &program, nullptr, 0);
      for (size_t k = 0; k < program.routines.size(); ++k) {
        Routine& routine = *program.routines[k];
        routine.body.declared = program.declared;
        verify(routine.plan, cat(where, ".weights.routines[", k, "]"), declared, &routine.body,
               &program, k);
      }
    }
  }

 private:
  // `plan`: the program's. `owner`: of a routine, which is its number `routine`.
  static void verify(const Plan& plan, const std::string& where, const Declared& declared,
                     Program* program, const Program* owner, size_t routine) {
    Unproved unproved;
    unproved.where = where;
    const Equalities equal = equalities_of(plan);
    Prover prover(plan, equal, *program, &unproved);
    require_memory(&prover);
    for (const std::vector<Declaration>& list : declared) require_launches(&prover, list);
    if (owner != nullptr) require_derived(&prover, *owner, routine);
    unproved.arena = !arena_is_ordered(*program);
    program->unproved = std::move(unproved);
    if (!plan.dims.empty()) return;
    // All sizes are known: nothing is left for a run.
    if (program->unproved.arena) const Sizes checked(plan, *program, {});
    program->unproved.arena = false;
  }

  Plan& plan_;
};

}  // namespace

void verify_plan(Plan* plan) { Verifier(plan).verify(); }

}  // namespace aot_rt
