// aot_runtime._native: packages and sessions for Python. Includes nothing of ours but aot.hpp.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator.h"
#include "arrays.h"
#include "caller.h"
#include "log.h"
#include "operators.h"
#include "options.h"
#include "trace.h"

namespace aot_python {
namespace {

// The bytes of one entry. Keeps the package's mapping alive.
class Entry {
 public:
  Entry(std::shared_ptr<aot::Package> package, const aot_entry_info* info)
      : package_(std::move(package)), info_(info) {}

  py::buffer_info buffer() const {
    const auto size = static_cast<py::ssize_t>(info_->size);
    return py::buffer_info(const_cast<void*>(info_->data), 1, "B", 1, {size}, {1}, true);
  }
  const char* dtype() const { return info_->dtype; }
  py::tuple shape() const {
    py::tuple result(static_cast<size_t>(info_->ndim));
    for (int32_t i = 0; i < info_->ndim; ++i) {
      result[static_cast<size_t>(i)] = py::int_(info_->shape[i]);
    }
    return result;
  }

 private:
  std::shared_ptr<aot::Package> package_;
  const aot_entry_info* info_;
};

// (name, dtype, ((size or None, min, max or None, multiple_of, label), …))
py::tuple describe(const aot_tensor_info& info) {
  py::tuple dims(static_cast<size_t>(info.ndim));
  for (int32_t i = 0; i < info.ndim; ++i) {
    const aot_dim_info& dim = info.dims[i];
    const auto or_none = [](int64_t value) {
      return value < 0 ? py::object(py::none()) : py::object(py::int_(value));
    };
    dims[static_cast<size_t>(i)] =
        py::make_tuple(or_none(dim.size), dim.min, or_none(dim.max), dim.multiple_of, dim.label);
  }
  return py::make_tuple(info.name, info.dtype_name, dims);
}

// A Python callable that watches a run; its first exception stops the watching and is kept.
struct Observer {
  py::function callback;
  std::optional<py::error_already_set> failure;

  static void call(void* context, size_t step, size_t buffer, const void* data, size_t size) {
    auto* self = static_cast<Observer*>(context);
    const py::gil_scoped_acquire gil;
    if (self->failure) return;
    try {
      self->callback(step, buffer, py::bytes(static_cast<const char*>(data), size));
    } catch (py::error_already_set& error) {
      self->failure.emplace(std::move(error));
    }
  }
};

// Ends runs from another thread. Sessions keep it while they run.
class Cancellation {
 public:
  Cancellation() : value_(make()) {}
  void cancel() { value_.cancel(); }
  void reset() { value_.reset(); }
  aot_cancellation* get() const { return value_.get(); }

 private:
  static aot::Cancellation make() {
    auto made = aot::Cancellation::create();
    if (!made.ok()) raise(made.error());
    return std::move(made).value();
  }
  aot::Cancellation value_;
};

// How a run is done. `stream`: where the inputs' library works, as DLPack numbers streams; 0:
// unknown, the session's own. `to_host`: outputs on the host even if inputs are on a GPU.
// `timeout_ns`: 0: none. `places`: memory for the outputs, or an empty list.
struct RunRequest {
  int64_t stream = 0;
  bool to_host = false;
  int64_t timeout_ns = 0;
  std::shared_ptr<Cancellation> cancellation;
  py::list places;
};

class Session {
 public:
  // `allocator`: of the session's memory on a GPU; may be nullptr.
  Session(std::shared_ptr<aot::Package> package, std::shared_ptr<PythonAllocator> allocator,
          aot::Session session)
      : package_(std::move(package)),
        allocator_(std::move(allocator)),
        session_(without_gil_at_end(std::move(session))),
        runs_(std::make_shared<ExchangedRuns>(package_, allocator_, session_)) {}

  py::list run(const py::list& leaves, int64_t stream, bool to_host, int64_t timeout_ns,
               std::shared_ptr<Cancellation> cancellation, const py::list& places) {
    return run_as(leaves, {stream, to_host, timeout_ns, std::move(cancellation), places}, nullptr);
  }

  // The same from arrays to arrays of the first one's library, in its current stream, when DLPack's
  // exchange tables allow it; None if they do not.
  py::object run_exchanged(const py::list& leaves) {
    const auto count = static_cast<size_t>(PyList_GET_SIZE(leaves.ptr()));
    const py::object outputs = runs_->run(PySequence_Fast_ITEMS(leaves.ptr()), count);
    return outputs ? outputs : py::none();
  }
  py::object caller(py::ssize_t inputs, py::object build) const {
    return make_caller(runs_, inputs, std::move(build));
  }

  py::list run_observed(const py::list& leaves, py::function callback, int64_t stream,
                        bool to_host) {
    Observer observer{std::move(callback), std::nullopt};
    py::list outputs = run_as(leaves, {stream, to_host, 0, nullptr, py::list()}, &observer);
    if (observer.failure) throw py::error_already_set(std::move(*observer.failure));
    return outputs;
  }

  py::list profile() const {
    std::optional<aot::Result<std::vector<aot_step_profile>>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(session_->profile());
    }
    if (!result->ok()) raise(result->error());
    py::list rows;
    for (const aot_step_profile& step : result->value()) {
      rows.append(py::make_tuple(step.kernel, step.origin, step.calls, step.nanoseconds));
    }
    return rows;
  }

  void trace_begin(uint64_t capacity, bool nvtx, bool events) {
    const py::gil_scoped_release release;
    check_released(session_->begin_trace({capacity, nvtx, events}));
  }
  py::tuple trace_end() {
    std::optional<aot::Result<aot::Trace>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(session_->end_trace());
    }
    if (!result->ok()) raise(result->error());
    return describe_trace(result->value());
  }

  void reset_profile() {
    const py::gil_scoped_release release;
    check_released(session_->reset_profile());
  }

  // The sizes of every output for these inputs; -1 for a size that only a run knows.
  py::list output_sizes(const py::list& leaves) const {
    const Inputs inputs(leaves, *package_, kNoOrder);
    py::list all;
    for (size_t i = 0; i < package_->output_count(); ++i) {
      const auto rank = static_cast<size_t>(package_->output(i).ndim);
      std::optional<aot::Result<std::vector<int64_t>>> result;
      {
        const py::gil_scoped_release release;
        result.emplace(session_->output_sizes(inputs.data(), inputs.size(), i, rank));
      }
      if (!result->ok()) raise(result->error());
      py::tuple sizes(rank);
      for (size_t k = 0; k < rank; ++k) sizes[k] = py::int_(result->value()[k]);
      all.append(sizes);
    }
    return all;
  }
  void prewarm(const py::list& leaves) {
    const Inputs inputs(leaves, *package_, kNoOrder);
    const py::gil_scoped_release release;
    check_released(session_->prewarm(inputs.data(), inputs.size()));
  }
  py::dict memory() const {
    std::optional<aot::Result<aot_memory_info>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(session_->memory());
    }
    if (!result->ok()) raise(result->error());
    const aot_memory_info info = result->value();
    py::dict row;
    row["plans"] = info.plans;
    row["plan_bytes"] = info.plan_bytes;
    row["state_bytes"] = info.state_bytes;
    row["workspace_bytes"] = info.workspace_bytes;
    row["shared_bytes"] = info.shared_bytes;
    row["output_bytes"] = info.output_bytes;
    return row;
  }
  void trim() {
    const py::gil_scoped_release release;
    check_released(session_->trim());
  }

  // `data`: a writable contiguous buffer of the state's bytes.
  void get_state(size_t index, const py::buffer& data) const {
    const py::buffer_info info = data.request(true);
    const py::gil_scoped_release release;
    check_released(session_->get_state(index, info.ptr, bytes_of(info)));
  }
  void set_state(size_t index, const py::buffer& data) {
    const py::buffer_info info = data.request();
    const py::gil_scoped_release release;
    check_released(session_->set_state(index, info.ptr, bytes_of(info)));
  }
  void reset() {
    const py::gil_scoped_release release;
    check_released(session_->reset());
  }
  std::unique_ptr<Session> clone() const {
    std::optional<aot::Result<aot::Session>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(session_->clone());
    }
    if (!result->ok()) raise(result->error());
    return std::make_unique<Session>(package_, allocator_, std::move(*result).value());
  }

  void synchronize() {
    std::optional<aot::Result<aot::Done>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(session_->synchronize());
    }
    check(*result);
  }
  const char* isa() const { return session_->isa(); }
  int32_t num_threads() const { return session_->num_threads(); }
  bool on_gpu() const { return session_->device().device_type == kDLCUDA; }
  std::string device() const {
    return on_gpu() ? "cuda:" + std::to_string(session_->device().device_id) : "cpu";
  }

 private:
  static void check(const aot::Result<aot::Done>& result) {
    if (!result.ok()) raise(result.error());
  }
  // The same where the GIL is not held.
  static void check_released(const aot::Result<aot::Done>& result) {
    if (result.ok()) return;
    const py::gil_scoped_acquire gil;
    raise(result.error());
  }
  static size_t bytes_of(const py::buffer_info& info) {
    return static_cast<size_t>(info.size) * static_cast<size_t>(info.itemsize);
  }

  py::list run_as(const py::list& leaves, const RunRequest& request, Observer* observer) {
    const int64_t own = reinterpret_cast<int64_t>(session_->stream());
    const int64_t order = request.stream != 0 || own == 0 ? -1 : own;
    const Inputs inputs(leaves, *package_, order);
    const Inputs places(request.places, *package_, order, Role::kOutput);
    if (places.size() != 0 && places.size() != package_->output_count()) {
      raise(AOT_INVALID_ARGUMENT, "the model gives " + std::to_string(package_->output_count()) +
                                      " outputs, memory is given for " +
                                      std::to_string(places.size()));
    }
    const bool on_host = request.to_host || !inputs.any_on_gpu();
    aot::RunOptions options;
    options.stream = reinterpret_cast<void*>(request.stream);
    options.host_outputs = on_host;
    options.timeout_ns = request.timeout_ns;
    options.cancellation = request.cancellation ? request.cancellation->get() : nullptr;
    options.outputs = places.size() != 0 ? places.data() : nullptr;
    if (observer != nullptr) {
      options.observer = Observer::call;
      options.observer_context = observer;
    }
    std::vector<aot::Tensor> tensors = run_on(inputs, options);
    py::list outputs(tensors.size());
    const int64_t pending = on_host ? 0 : request.stream;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool given = places.size() != 0 && places.data()[i] != nullptr;
      outputs[i] =
          given ? py::object(request.places[i])
                : py::cast(std::make_unique<Output>(std::move(tensors[i]), session_, pending));
    }
    return outputs;
  }

  std::vector<aot::Tensor> run_on(const Inputs& inputs, const aot::RunOptions& options) {
    const LogDrain drain;
    std::optional<aot::Result<std::vector<aot::Tensor>>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(session_->run(inputs.data(), inputs.size(), options));
    }
    if (!result->ok()) raise_run_error(result->error());
    return std::move(*result).value();
  }

  std::shared_ptr<aot::Package> package_;
  std::shared_ptr<PythonAllocator> allocator_;
  std::shared_ptr<aot::Session> session_;  // outputs on a GPU may wait for it
  std::shared_ptr<ExchangedRuns> runs_;
};

class Package {
 public:
  Package(const std::string& path, int verify, const std::string& weights, const py::object& policy,
          bool copy) {
    const LogDrain drain;
    aot::PackageOptions options;
    options.log = keep_message;
    options.verify = static_cast<aot_verify>(verify);
    options.weights = weights;
    options.copy = copy;
    if (!policy.is_none()) options.policy = read_policy(py::tuple(policy));
    std::optional<aot::Result<aot::Package>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(aot::Package::open(path, options));
    }
    if (!result->ok()) raise(result->error());
    package_ = without_gil_at_end(std::move(*result).value());
  }

  std::unique_ptr<Session> session(const std::string& device, const std::string& isa,
                                   int32_t num_threads, bool graphs, bool profile,
                                   const py::dict& limits, const py::object& device_allocator) {
    const LogDrain drain;
    const aot_limits given = read_limits(limits);
    std::shared_ptr<PythonAllocator> allocator;
    aot_allocator native{};
    if (!device_allocator.is_none()) {
      allocator = std::make_shared<PythonAllocator>(device_allocator);
      native = allocator->as_native();
    }
    std::optional<aot::Result<aot::Session>> result;
    {
      const py::gil_scoped_release release;
      aot::SessionOptions options;
      options.device = device;
      options.isa = isa;
      options.graphs = graphs;
      options.num_threads = num_threads;
      options.profile = profile;
      options.limits = given;
      options.device_allocator = allocator != nullptr ? &native : nullptr;
      result.emplace(aot::Session::create(*package_, options));
    }
    if (!result->ok()) raise(result->error());
    return std::make_unique<Session>(package_, std::move(allocator), std::move(*result).value());
  }

  // `updates`: (name, value or None, add, up or None, down or None, scale).
  void replace_weights(const py::list& updates, bool partial, bool restart, bool ignore_unknown) {
    py::list arrays;
    for (const py::handle update : updates) {
      for (const size_t column : {1, 3, 4}) {
        const py::object array = py::reinterpret_borrow<py::tuple>(update)[column];
        if (!array.is_none()) arrays.append(array);
      }
    }
    const Inputs tensors(arrays, *package_, -1);
    std::vector<aot::WeightUpdate> given;
    size_t next = 0;
    const auto take = [&](const py::handle array) {
      return array.is_none() ? nullptr : tensors.data()[next++];
    };
    for (const py::handle update : updates) {
      const auto row = py::reinterpret_borrow<py::tuple>(update);
      aot::WeightUpdate made;
      made.name = row[0].cast<std::string>();
      made.value = take(row[1]);
      made.add = row[2].cast<bool>();
      made.up = take(row[3]);
      made.down = take(row[4]);
      made.scale = row[5].cast<double>();
      given.push_back(std::move(made));
    }
    const aot::ReplaceOptions options{partial, restart, ignore_unknown};
    without_gil([&] { return package_->replace_weights(given, options); });
  }

  void load_weights(const std::string& path, bool partial, bool restart, bool ignore_unknown) {
    const aot::ReplaceOptions options{partial, restart, ignore_unknown};
    without_gil([&] { return package_->load_weights(path, options); });
  }

  void write_perf_map() {
    without_gil([&] { return package_->write_perf_map(); });
  }

  py::tuple inputs() const {
    py::tuple rows(package_->input_count());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = describe(package_->input(i));
    return rows;
  }

  py::tuple states() const {
    py::tuple rows(package_->state_count());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = describe(package_->state(i));
    return rows;
  }

  py::tuple outputs() const {
    py::tuple rows(package_->output_count());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = describe(package_->output(i));
    return rows;
  }

  py::bytes plan() const { return py::bytes(package_->plan()); }

  py::list entry_names() const {
    py::list names;
    for (size_t i = 0; i < package_->entry_count(); ++i) names.append(package_->entry(i).name);
    return names;
  }

  std::unique_ptr<Entry> entry(const std::string& name) const {
    const aot_entry_info* info = package_->find_entry(name.c_str());
    if (info == nullptr) raise(AOT_NOT_FOUND, "the package has no entry '" + name + "'");
    return std::make_unique<Entry>(package_, info);
  }

  // The checked bytes of a file that the package carries.
  py::bytes file(const std::string& name) const {
    std::optional<aot::Result<std::string_view>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(package_->read_file(name));
    }
    if (!result->ok()) raise(result->error());
    return py::bytes(result->value().data(), result->value().size());
  }

 private:
  template <typename Call>
  static void without_gil(Call call) {
    const LogDrain drain;
    std::optional<aot::Result<aot::Done>> result;
    {
      const py::gil_scoped_release release;
      result.emplace(call());
    }
    if (!result->ok()) raise(result->error());
  }

  std::shared_ptr<aot::Package> package_;
};

}  // namespace
}  // namespace aot_python

PYBIND11_MODULE(_native, m) {
  using namespace aot_python;  // NOLINT: the module's own names
  m.doc() = "The runtime's C interface for aot_runtime; private.";

  py::class_<Output>(m, "Output", py::buffer_protocol())
      .def_buffer(&Output::buffer)
      .def_property_readonly("dtype", &Output::dtype)
      .def("__dlpack_device__",
           [](const Output& self) {
             return py::make_tuple(int{self.device().device_type}, self.device().device_id);
           })
      .def(
          "__dlpack__",
          [](Output& self, const py::object& stream, const py::object& max_version,
             const py::object& /*dl_device*/,
             const py::object& /*copy*/) { return self.dlpack(stream, max_version); },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none());

  py::class_<Entry>(m, "Entry", py::buffer_protocol())
      .def_buffer([](const Entry& self) { return self.buffer(); })
      .def_property_readonly("dtype", &Entry::dtype)
      .def_property_readonly("shape", &Entry::shape);

  py::class_<Cancellation, std::shared_ptr<Cancellation>>(
      m, "Cancellation", "Ends runs that were given it, from any thread.")
      .def(py::init<>())
      .def("cancel", &Cancellation::cancel, "Runs that have it, now or later, end with Cancelled.")
      .def("reset", &Cancellation::reset, "Runs that begin from here on are not ended.");

  py::class_<Session>(m, "Session")
      .def("run", &Session::run, py::arg("leaves"), py::arg("stream") = 0,
           py::arg("to_host") = false, py::arg("timeout_ns") = 0, py::arg("cancellation") = nullptr,
           py::arg("places") = py::list())
      .def("output_sizes", &Session::output_sizes, py::arg("leaves"))
      .def("prewarm", &Session::prewarm, py::arg("leaves"))
      .def("memory", &Session::memory)
      .def("trim", &Session::trim)
      .def("run_exchanged", &Session::run_exchanged, py::arg("leaves"))
      .def("caller", &Session::caller, py::arg("inputs"), py::arg("build"))
      .def("run_observed", &Session::run_observed, py::arg("leaves"), py::arg("callback"),
           py::arg("stream") = 0, py::arg("to_host") = false)
      .def("synchronize", &Session::synchronize)
      .def("get_state", &Session::get_state, py::arg("index"), py::arg("data"))
      .def("set_state", &Session::set_state, py::arg("index"), py::arg("data"))
      .def("reset", &Session::reset)
      .def("clone", &Session::clone)
      .def_property_readonly("device", &Session::device)
      .def_property_readonly("on_gpu", &Session::on_gpu)
      .def("profile", &Session::profile)
      .def("reset_profile", &Session::reset_profile)
      .def("trace_begin", &Session::trace_begin, py::arg("capacity"), py::arg("nvtx"),
           py::arg("events"))
      .def("trace_end", &Session::trace_end)
      .def_property_readonly("isa", &Session::isa)
      .def_property_readonly("num_threads", &Session::num_threads);

  py::class_<Package>(m, "Package")
      .def(py::init<const std::string&, int, const std::string&, const py::object&, bool>(),
           py::arg("path"), py::arg("verify") = 0, py::arg("weights") = "",
           py::arg("policy") = py::none(), py::arg("copy") = false)
      .def("session", &Package::session, py::kw_only(), py::arg("device") = "", py::arg("isa") = "",
           py::arg("num_threads") = 0, py::arg("graphs") = true, py::arg("profile") = false,
           py::arg("limits") = py::dict(), py::arg("device_allocator") = py::none())
      .def("replace_weights", &Package::replace_weights, py::arg("updates"), py::arg("partial"),
           py::arg("restart"), py::arg("ignore_unknown"))
      .def("load_weights", &Package::load_weights, py::arg("path"), py::arg("partial"),
           py::arg("restart"), py::arg("ignore_unknown"))
      .def("write_perf_map", &Package::write_perf_map)
      .def("inputs", &Package::inputs)
      .def("outputs", &Package::outputs)
      .def("states", &Package::states)
      .def("plan", &Package::plan)
      .def("entry_names", &Package::entry_names)
      .def("entry", &Package::entry)
      .def("file", &Package::file);

  py::class_<OperatorTensor>(m, "OperatorTensor", py::buffer_protocol(),
                             "A tensor of an operator's call, valid while the call lasts: for "
                             "`from_dlpack` of a library that works in its `stream`, or by its "
                             "`address`, `shape` and `dtype` (row-major).")
      .def_buffer([](const OperatorTensor& self) { return self.buffer(); })
      .def_property_readonly("dtype", &OperatorTensor::dtype)
      .def_property_readonly("shape", &OperatorTensor::shape)
      .def_property_readonly("address", &OperatorTensor::address)
      .def_property_readonly("stream", &OperatorTensor::stream)
      .def_property_readonly(
          "on_gpu", [](const OperatorTensor& self) { return self.device().device_type == kDLCUDA; })
      .def("__dlpack_device__",
           [](const OperatorTensor& self) {
             return py::make_tuple(int{self.device().device_type}, self.device().device_id);
           })
      .def(
          "__dlpack__",
          [](const OperatorTensor& self, const py::object& stream, const py::object& max_version,
             const py::object& /*dl_device*/,
             const py::object& /*copy*/) { return self.dlpack(stream, max_version); },
          py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
          py::arg("dl_device") = py::none(), py::arg("copy") = py::none());
  m.def("register_operator", &register_operator, py::arg("name"), py::arg("device"),
        py::arg("function"));

  m.def("set_log_sink", &set_log_sink, py::arg("sink"));
  m.def("cpu_isa", &aot_cpu_isa);
  m.def("version", &aot_runtime_version);
}
