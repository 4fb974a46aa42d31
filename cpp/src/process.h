// What a process knows of itself.
#ifndef AOT_SRC_PROCESS_H_
#define AOT_SRC_PROCESS_H_

#include <cstdint>

namespace aot_rt {

// How often this process and those that it comes from have been forked since the library was
// loaded. What was made at another count was made in another process: its threads are not here.
uint32_t forks();

}  // namespace aot_rt

#endif  // AOT_SRC_PROCESS_H_
