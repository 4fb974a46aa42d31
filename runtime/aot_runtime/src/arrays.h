// Python arrays as inputs, outputs as Python arrays; without NumPy or any other library.
#ifndef AOT_PYTHON_ARRAYS_H_
#define AOT_PYTHON_ARRAYS_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aot/aot.hpp"
#include "exchange.h"

namespace aot_python {

namespace py = pybind11;

// Sets the Python exception for a code of aot_code (a class of aot_runtime.errors) and throws.
[[noreturn]] void raise(aot_code code, const std::string& message, const std::string& origin = {});
[[noreturn]] inline void raise(const aot::Error& error) {
  raise(error.code(), error.what(), error.origin());
}

// A tensor in host memory as the buffer protocol gives it, bfloat16 as its bits.
py::buffer_info buffer_of(const DLTensor& view, bool readonly);
// The name of one of the runtime's element types.
const char* dtype_name(DLDataType dtype);
// A tensor for a consumer of DLPack, who owns it then; `max_version` as __dlpack__ takes it.
py::capsule to_capsule(DLManagedTensorVersioned* managed, const py::object& max_version);
// A stream as __dlpack__ takes it: None stands for the legacy default stream.
int64_t wanted_stream(const py::object& stream);

constexpr int64_t kNoOrder = -1;  // as a stream: the consumer sees to it

// Owns what must not be destroyed while the GIL is held: its end may wait for a GPU, for a run, or
// for a Python callable of another thread.
template <typename T>
std::shared_ptr<T> without_gil_at_end(T value) {
  return std::shared_ptr<T>(new T(std::move(value)), [](T* owned) {
    if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) {
      delete owned;
      return;
    }
    const py::gil_scoped_release release;
    delete owned;
  });
}

// What arrays are to a call.
enum class Role { kInput, kOutput };

// The inputs of one call: views of the callers' memory and what keeps it alive. Needs the GIL to
// be made and destroyed, not to be read.
class Inputs {
 public:
  // `leaves`: objects with the buffer protocol or __dlpack__, or Python numbers; as many as the
  // package has inputs, or fewer and more (the runtime then reports the count). `stream`: for
  // arrays on a GPU, as __dlpack__ takes it: where they are read, or -1 if they are ready there.
  // With the role of outputs they are written: None stands for one that the runtime makes.
  Inputs(const py::list& leaves, const aot::Package& package, int64_t stream,
         Role role = Role::kInput);
  // The same without calls of Python, for numbers and for arrays of types with an exchange table.
  // exchange() says whether that was possible; nothing else may be asked if not.
  Inputs(PyObject* const* leaves, size_t count, const aot::Package& package, Exchanges* exchanges);
  ~Inputs();
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  const DLTensor* const* data() const { return pointers_.data(); }
  size_t size() const { return pointers_.size(); }
  bool any_on_gpu() const;
  // The table of the first array; nullptr if an input has none, or if there is no array.
  const Exchange* exchange() const { return exchange_; }
  // The stream in which the library of the first array on a GPU works, if its table says so.
  std::optional<int64_t> current_stream() const;

 private:
  struct Leaf {
    Leaf() { view.device = DLDevice{kDLCPU, 0}; }

    DLTensor view{};
    // Room for shape, then strides.
    int64_t* make_layout(size_t rank) {
      if (rank <= kFewDims) return near;
      layout.resize(2 * rank);
      return layout.data();
    }

    static constexpr size_t kFewDims = 6;  // more take memory of their own
    int64_t near[2 * kFewDims];
    std::vector<int64_t> layout;
    double number[2] = {};  // storage of a Python number, any type
    Py_buffer buffer{};     // held when buffer.obj is set
    py::object owner;       // DLPack capsule, or the array itself
    const Exchange* exchange = nullptr;
  };

  static const aot_tensor_info* describe(const aot::Package& package, size_t index) {
    return index < package.input_count() ? &package.input(index) : nullptr;
  }
  void read(Leaf& leaf, py::handle object, const aot_tensor_info* info);
  void read_place(Leaf& leaf, py::handle object, const std::string& name);
  static bool read_number(Leaf& leaf, py::handle object, const aot_tensor_info* info);
  static bool read_buffer(Leaf& leaf, py::handle object, const std::string& name, bool changed);
  bool read_dlpack(Leaf& leaf, py::handle object, const std::string& name, bool changed) const;
  static bool read_exchanged(Leaf& leaf, py::handle object, Exchanges* exchanges);

  int64_t stream_;
  std::vector<Leaf> leaves_;
  std::vector<const DLTensor*> pointers_;
  const Exchange* exchange_ = nullptr;
};

// One output. On the host: readable through the buffer protocol any number of times (bfloat16 as
// its bits). Anywhere: given away once through __dlpack__.
class Output {
 public:
  // `session`: whose run gave it. `stream`: in which that run was enqueued, 0 if it is over.
  Output(aot::Tensor tensor, std::shared_ptr<aot::Session> session, int64_t stream)
      : session_(std::move(session)), tensor_(std::move(tensor)), stream_(stream) {}

  py::buffer_info buffer();
  // `stream`: the consumer's, as DLPack numbers them; None stands for the legacy default stream.
  py::capsule dlpack(const py::object& stream, const py::object& max_version);
  DLDevice device() const { return tensor_.view().device; }
  const char* dtype() const;

 private:
  void require() const;

  // Goes after the tensor, whose memory is freed with the session then, where the GIL is not held.
  std::shared_ptr<aot::Session> session_;
  aot::Tensor tensor_;
  int64_t stream_;
  bool given_ = false;
};

}  // namespace aot_python

#endif  // AOT_PYTHON_ARRAYS_H_
