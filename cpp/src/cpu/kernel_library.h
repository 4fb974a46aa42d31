// Kernels of one ISA level, loaded from the package's bytes through an anonymous memory file.
#ifndef AOT_SRC_CPU_KERNEL_LIBRARY_H_
#define AOT_SRC_CPU_KERNEL_LIBRARY_H_

#include <string>
#include <string_view>
#include <vector>

#include "aot/kernel_abi.h"
#include "memory_library.h"
#include "plan.h"

namespace aot_rt {

// The library to load: the best that CPU and package share, or the one asked for (`isa` not
// empty). Throws UNAVAILABLE, which lists what the package has and what the CPU has.
const Library& choose_library(const Program& program, std::string_view isa);

// The program that has that library: levels may have programs of their own. Throws likewise.
const Program& choose_cpu_program(const std::vector<const Program*>& programs,
                                  std::string_view isa);

// A loaded library. Immutable, shared by sessions.
class KernelLibrary {
 public:
  // Loads one of the program's libraries. Checks the SHA-256, the declarations and the table.
  // Throws CORRUPT_PACKAGE, INCOMPATIBLE or DEVICE_ERROR.
  KernelLibrary(const Library& library, const Program& program);
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  const std::string& isa() const { return isa_; }
  aot_kernel_fn kernel(int32_t id) const { return functions_[static_cast<size_t>(id)]; }

 private:
  void read_table(const Library& library, const std::vector<Kernel>& kernels);

  std::string isa_;
  MemoryLibrary code_;
  std::vector<aot_kernel_fn> functions_;  // by position in the program's `kernels`
};

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_KERNEL_LIBRARY_H_
