// Memory that a run needs while it runs: temporaries and scratch, lent to sessions run by run.
#ifndef AOT_SRC_WORKSPACE_H_
#define AOT_SRC_WORKSPACE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "lock.h"
#include "memory.h"

namespace aot_rt {

struct Workspace {
  std::vector<Block> arenas;  // by scope
  Block scratch;

  size_t bytes() const;
};

// The workspaces of a program on a device, for all sessions that share them: as many as have ever
// run at one time. Any thread. A process forked while another thread was in the pool cannot have
// what is in it: each of its runs there gets new memory.
class WorkspacePool {
 public:
  // `scopes`: of the program.
  explicit WorkspacePool(size_t scopes) : scopes_(scopes), lock_("the pool of workspaces") {}

  // One that nobody has, `wanted` if it is free. A new one is empty: its user makes it as large as
  // it needs.
  std::unique_ptr<Workspace> take(const Workspace* wanted);
  void give_back(std::unique_ptr<Workspace> workspace) noexcept;

  // Frees those that nobody has. Gives the bytes.
  size_t trim();
  // Bytes of those that nobody has.
  size_t idle_bytes();

 private:
  // Null when there is none to be had.
  std::unique_ptr<Workspace> take_idle(const Workspace* wanted);

  size_t scopes_;
  Lock lock_;
  std::vector<std::unique_ptr<Workspace>> free_;  // given back last, taken first
};

}  // namespace aot_rt

#endif  // AOT_SRC_WORKSPACE_H_
