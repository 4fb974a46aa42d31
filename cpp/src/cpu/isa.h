// Instruction-set levels of this CPU, as the x86-64 psABI names them.
#ifndef AOT_SRC_CPU_ISA_H_
#define AOT_SRC_CPU_ISA_H_

#include <string_view>

namespace aot_rt {

// The level's number (2, 3, 4), greater is better; 0 for a name that is none.
int isa_rank(std::string_view name);

// The best level that CPU and operating system (saved registers) support; 0: none.
int cpu_isa_rank();

// "x86-64-v3" and so on; "none" for 0.
const char* isa_name(int rank);

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_ISA_H_
