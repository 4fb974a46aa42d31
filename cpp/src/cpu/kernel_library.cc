#include "cpu/kernel_library.h"

#include "cpu/isa.h"
#include "error.h"
#include "verify/declaration.h"

namespace aot_rt {
namespace {

struct Choice {
  const Program* program = nullptr;
  const Library* library = nullptr;
};

std::string list_levels(const std::vector<const Program*>& programs) {
  std::string text;
  for (const Program* program : programs) {
    for (const Library& library : program->libraries) {
      text += cat(text.empty() ? "" : ", ", library.isa);
    }
  }
  return text.empty() ? "none" : text;
}

Choice choose(const std::vector<const Program*>& programs, std::string_view isa) {
  const int cpu = cpu_isa_rank();
  Choice best;
  for (const Program* program : programs) {
    for (const Library& library : program->libraries) {
      const int rank = isa_rank(library.isa);
      if (rank == 0 || rank > cpu || (!isa.empty() && library.isa != isa)) continue;
      if (best.library == nullptr || rank > isa_rank(best.library->isa)) best = {program, &library};
    }
  }
  if (best.library != nullptr) return best;
  fail(AOT_UNAVAILABLE, "no CPU kernels for ", isa.empty() ? "this CPU" : isa, ": the package has ",
       list_levels(programs), "; this CPU supports up to ", isa_name(cpu));
}

}  // namespace

const Library& choose_library(const Program& program, std::string_view isa) {
  return *choose({&program}, isa).library;
}

const Program& choose_cpu_program(const std::vector<const Program*>& programs,
                                  std::string_view isa) {
  return *choose(programs, isa).program;
}

KernelLibrary::KernelLibrary(const Library& library, const Program& program)
    : isa_(library.isa),
      code_(*library.entry, library.sha256, [&library, &program](const Entry& copy) {
        check_declarations(copy, program.declarations_of(library.entry));
      }) {
  read_table(library, program.kernels);
}

void KernelLibrary::read_table(const Library& library, const std::vector<Kernel>& kernels) {
  const std::string& name = library.entry->name;
  void* symbol = code_.symbol("aot_kernel_library_query");
  if (symbol == nullptr) {
    fail(AOT_CORRUPT_PACKAGE, "'", name, "' does not export aot_kernel_library_query");
  }
  const auto query = reinterpret_cast<aot_kernel_library_query_fn>(symbol);
  const aot_kernel_library* table = query(AOT_KERNEL_ABI_VERSION);
  if (table == nullptr || table->abi_version != AOT_KERNEL_ABI_VERSION) {
    fail(AOT_INCOMPATIBLE, "'", name, "' does not serve kernel ABI version ",
         AOT_KERNEL_ABI_VERSION);
  }
  if (table->isa == nullptr || (table->kernels == nullptr && table->kernel_count != 0)) {
    fail(AOT_CORRUPT_PACKAGE, "'", name, "' has a table without a level or kernels");
  }
  if (library.isa != table->isa) {
    fail(AOT_CORRUPT_PACKAGE, "'", name, "' is built for ", table->isa, ", the plan says ",
         library.isa);
  }
  if (table->kernel_count != kernels.size()) {
    fail(AOT_CORRUPT_PACKAGE, "'", name, "' has ", table->kernel_count, " kernels, the plan ",
         kernels.size());
  }
  functions_.reserve(kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const aot_kernel_entry& row = table->kernels[i];
    if (row.name == nullptr || row.run == nullptr) {
      fail(AOT_CORRUPT_PACKAGE, "'", name, "': kernel ", i, " has no name or no function");
    }
    if (kernels[i].name != row.name) {
      fail(AOT_CORRUPT_PACKAGE, "'", name, "': kernel ", i, " is '", row.name, "', the plan says '",
           kernels[i].name, "'");
    }
    functions_.push_back(row.run);
  }
}

}  // namespace aot_rt
