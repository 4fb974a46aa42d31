// A sequence of kernel launches as a CUDA graph: one call to the driver runs them all.
#ifndef AOT_SRC_CUDA_GRAPH_H_
#define AOT_SRC_CUDA_GRAPH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/device.h"

namespace aot_rt::cuda {

struct Launch {
  CUfunction function = nullptr;
  std::array<unsigned, 3> grid{};
  unsigned threads = 0;
  unsigned shared = 0;          // bytes
  void** parameters = nullptr;  // the address of each
  int32_t step = 0;             // position in the program
  bool scratch = false;         // it uses the region that all launches share
  bool waits = false;           // for the launch before it by itself: it may start before that ends
  bool changed = false;         // parameters differ from those of the graph to be updated

  // For these sizes there is nothing to do: it is not launched.
  bool is_empty() const { return grid[0] == 0; }
};

// Launches in a row, which others own.
struct LaunchRange {
  Launch* first = nullptr;
  size_t count = 0;

  Launch* begin() const { return first; }
  Launch* end() const { return first + count; }
};

class Graph {
 public:
  // Copies the present parameters of the launches, empty ones left out. Needs the device's
  // context to be current, as all of this does. Throws DEVICE_ERROR, OUT_OF_MEMORY, UNSUPPORTED.
  Graph(const Device& device, LaunchRange launches);

  // Copies the parameters of those of its launches that are marked as changed, and clears the
  // marks. Runs that were launched before keep theirs.
  void update(LaunchRange launches);

  void launch(CUstream stream) const { driver_.graph_launch(executable_.get(), stream); }

 private:
  // Destroys what the driver made, in the process that it was made in.
  struct Destroy {
    void operator()(CUgraph graph) const noexcept;
    void operator()(CUgraphExec executable) const noexcept;

    const Driver* driver;
    uint32_t forks;
  };
  void add(const Launch& launch);

  const Driver& driver_;
  std::unique_ptr<CUgraph_st, Destroy> graph_;
  std::unique_ptr<CUgraphExec_st, Destroy> executable_;
  std::vector<CUgraphNode> nodes_;  // by launch; nullptr: it was empty
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_GRAPH_H_
