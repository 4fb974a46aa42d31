// A program of a GPU resolved for given sizes: launches, and graphs of them.
#ifndef AOT_SRC_CUDA_BOUND_LAUNCHES_H_
#define AOT_SRC_CUDA_BOUND_LAUNCHES_H_

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "bound_program.h"
#include "cuda/device_program.h"
#include "cuda/graph.h"

namespace aot_rt::cuda {

inline constexpr int64_t kMemoryAlignment = 256;  // of the driver's memory

// Launches in a row with the graphs of them.
struct Segment {
  struct Variant {
    std::unique_ptr<Graph> graph;
    std::vector<void*> addresses;  // that it has
  };

  int32_t begin = 0;  // the first of its steps
  int32_t first = 0;  // the first of its launches
  LaunchRange launches;
  std::vector<bool> uses;         // by address: some launch has it
  std::vector<Variant> variants;  // at most kMaxVariants
  int64_t patches = 0;            // of all variants
  uint64_t runs = 0;              // completed or enqueued, with the present sizes
  bool graph_works = true;        // false once the driver has refused
};

// Every kernel parameter is eight bytes: a slot or a size of the bound program.
class BoundLaunches final : public BoundProgram {
 public:
  // As BoundProgram; loads the kernels that it launches, with the device's context current.
  // `fault_words`: one int32 per step of the program, in memory that the GPU reaches; must outlive
  // this.
  BoundLaunches(const Plan& plan, const Program& program, DeviceProgram& code,
                std::vector<int64_t> dims, uint8_t* states, int32_t* fault_words);

  void set_scratch(uint8_t* memory) override;
  // Drops graphs, which have other addresses: none of them may be running.
  void set_weights(const Container& container, uint64_t generation,
                   const Placement* weights) override;
  size_t footprint() const override;

  // The launches of the program's steps from `begin` to before `end`, launches all of them. The
  // reference holds as long as this lives.
  Segment& segment(int32_t begin, int32_t end);

  // A graph of the launches with their present parameters: one made for the same addresses, else
  // another patched, or a new one while addresses keep changing. A caller who keeps an output while
  // the next run makes another gives two sets of addresses in turn.
  const Graph& graph(const Device& device, Segment* segment);

 private:
  void lay_out_parameters(int32_t* fault_words);
  void bind_launch(int32_t launch, const Step& step) override;
  void sizes_changed(int32_t scope) override;
  // All addresses that may change between runs.
  size_t address_count() const { return addresses().size() + 1; }
  void* present(size_t which) const {
    return which < addresses().size() ? addresses()[which] : scratch_;
  }
  void copy_addresses(std::vector<void*>* to) const;
  void patch(Segment* segment, Segment::Variant* variant);
  // How many addresses that the segment uses differ from the present ones.
  int64_t distance(const Segment& segment, const Segment::Variant& variant) const;

  DeviceProgram& code_;
  std::vector<Launch> launches_;
  std::vector<void*> faults_;             // by launch: the address of its fault word
  std::vector<void*> parameters_;         // addresses of parameters, as the driver takes them
  int64_t alignment_ = kMemoryAlignment;  // of scratch: the greatest that a kernel wants
  void* scratch_ = nullptr;
  void* nothing_ = nullptr;  // the parameter of who needs no scratch, and of the profiler's
  std::list<Segment> segments_;
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_BOUND_LAUNCHES_H_
