// The C interface: argument checks, option structs of any size, exceptions turned into statuses.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "aot/abi.h"
#include "cpu/isa.h"
#include "devices.h"
#include "error.h"
#include "handles.h"
#include "operators.h"
#include "status.h"

namespace {

using aot_rt::fail;
using aot_rt::guard;
using aot_rt::read_options;
using aot_rt::require;

std::string weights_of(const aot_package_options& options) {
  return options.weights != nullptr ? options.weights : "";
}

aot_rt::Placing placing_of(const aot_package_options& options) {
  return options.copy != 0 ? aot_rt::Placing::kCopy : aot_rt::Placing::kMap;
}

aot_package* open_package(aot_rt::PackageFiles files, const aot_package_options& options) {
  const aot_rt::Log log{options.log, options.log_context};
  const aot_rt::Policy policy = aot_rt::read_policy(options.policy);
  if (options.verify < AOT_VERIFY_DEFAULT || options.verify > AOT_VERIFY_LAZY) {
    fail(AOT_INVALID_ARGUMENT, "verify is ", options.verify, ", which is no aot_verify");
  }
  auto package = std::make_shared<aot_rt::Package>(std::move(files), log, policy);
  if (options.verify == AOT_VERIFY_FULL) package->verify();
  if (options.verify == AOT_VERIFY_LAZY) package->verify_when_used();
  return new aot_package{std::move(package)};
}

template <typename Item>
const Item* item_at(const std::vector<Item>& items, size_t index) {
  return index < items.size() ? &items[index] : nullptr;
}

const aot_entry_info& info_of(const aot_package& package, const aot_rt::Entry& entry) {
  const auto position = &entry - package.value->container().entries().data();
  return package.value->entries()[static_cast<size_t>(position)];
}

aot_rt::ReplaceOptions replace_options(const aot_replace_options* given) {
  const auto read = read_options(given, "aot_replace_options");
  return {read.partial != 0, read.restart != 0, read.ignore_unknown != 0};
}

aot_rt::Container read_weights(const aot_rt::MappedFile& file, const char* path) {
  try {
    return aot_rt::Container::read_tensors(file.bytes());
  } catch (const aot_rt::Error& error) {
    throw aot_rt::Error(error.code(), aot_rt::cat("weights '", path, "': ", error.what()));
  }
}

aot_rt::WeightUpdate read_update(const aot_weight_update* given) {
  require(given, "an update");
  const auto read = read_options(given, "aot_weight_update");
  require(read.name, "the name of an update");
  const double scale = read.scale == 0 ? 1 : read.scale;
  return {read.name, read.value, read.add != 0, read.up, read.down, scale};
}

aot_rt::RunOptions with_stream(void* stream) {
  aot_rt::RunOptions options;
  options.stream = stream;
  return options;
}

template <typename Managed, typename Convert>
aot_status* run_session(aot_session* session, const DLTensor* const* inputs, size_t input_count,
                        Managed** outputs, size_t output_count, const aot_rt::RunOptions& options,
                        Convert convert) {
  return guard([&] {
    require(session, "session");
    if (input_count != 0) require(inputs, "inputs");
    const size_t expected = session->value->plan().outputs.size();
    if (output_count != expected) {
      fail(AOT_INVALID_ARGUMENT, "the model gives ", expected, " outputs, room for ", output_count);
    }
    if (output_count != 0) require(outputs, "outputs");
    session->value->run(inputs, input_count, options, [&](size_t i, aot_rt::OutputBlock* block) {
      outputs[i] = block == nullptr ? nullptr : convert(block);
    });
  });
}

}  // namespace

uint32_t aot_abi_version(void) { return AOT_ABI_VERSION; }

const char* aot_runtime_version(void) { return AOT_RUNTIME_VERSION; }

aot_status* aot_register_operator(const char* name, aot_operator_fn function, void* user,
                                  void (*release)(void* user)) {
  return aot_register_operator_for(aot_rt::kOperatorDevice, name, function, user, release);
}

aot_status* aot_register_operator_for(const char* device, const char* name,
                                      aot_operator_fn function, void* user,
                                      void (*release)(void* user)) {
  return guard([&] {
    require(device, "device");
    require(name, "name");
    if (*name == '\0') fail(AOT_INVALID_ARGUMENT, "name is empty");
    aot_rt::check_device_kind(device);
    aot_rt::register_operator({device, name}, function, user, release);
  });
}

aot_status* aot_package_open(const char* path, const aot_package_options* options,
                             aot_package** package) {
  return guard([&] {
    require(path, "path");
    require(package, "package");
    const auto read = read_options(options, "aot_package_options");
    *package = open_package(aot_rt::open_files(path, weights_of(read), placing_of(read)), read);
  });
}

aot_status* aot_package_open_memory(const void* data, size_t size,
                                    const aot_package_options* options, aot_package** package) {
  return guard([&] {
    require(data, "data");
    require(package, "package");
    if (reinterpret_cast<uintptr_t>(data) % aot_rt::kBlockAlignment != 0) {
      fail(AOT_INVALID_ARGUMENT, "data must be aligned to ", aot_rt::kBlockAlignment, " bytes");
    }
    const auto read = read_options(options, "aot_package_options");
    const aot_rt::Bytes bytes{static_cast<const uint8_t*>(data), size};
    *package = open_package(aot_rt::borrow_files(bytes, weights_of(read), placing_of(read)), read);
  });
}

void aot_package_free(aot_package* package) { delete package; }

size_t aot_package_input_count(const aot_package* package) {
  return package->value->inputs().size();
}

size_t aot_package_output_count(const aot_package* package) {
  return package->value->outputs().size();
}

const aot_tensor_info* aot_package_input(const aot_package* package, size_t index) {
  return item_at(package->value->inputs(), index);
}

const aot_tensor_info* aot_package_output(const aot_package* package, size_t index) {
  return item_at(package->value->outputs(), index);
}

size_t aot_package_state_count(const aot_package* package) {
  return package->value->states().size();
}

const aot_tensor_info* aot_package_state(const aot_package* package, size_t index) {
  return item_at(package->value->states(), index);
}

size_t aot_package_entry_count(const aot_package* package) {
  return package->value->entries().size();
}

const aot_entry_info* aot_package_entry(const aot_package* package, size_t index) {
  return item_at(package->value->entries(), index);
}

const aot_entry_info* aot_package_find_entry(const aot_package* package, const char* name) {
  const aot_rt::Entry* entry = name != nullptr ? package->value->container().find(name) : nullptr;
  return entry != nullptr ? &info_of(*package, *entry) : nullptr;
}

aot_status* aot_package_read_file(aot_package* package, const char* name,
                                  const aot_entry_info** file) {
  return guard([&] {
    require(package, "package");
    require(name, "name");
    require(file, "file");
    *file = &info_of(*package, package->value->file(name));
  });
}

const char* aot_package_plan(const aot_package* package, size_t* size) {
  const aot_rt::Bytes text = package->value->plan_text();
  if (size != nullptr) *size = text.size;
  return reinterpret_cast<const char*>(text.data);
}

aot_status* aot_package_replace_weights(aot_package* package,
                                        const aot_weight_update* const* updates, size_t count,
                                        const aot_replace_options* options) {
  return guard([&] {
    require(package, "package");
    if (count != 0) require(updates, "updates");
    std::vector<aot_rt::WeightUpdate> read;
    for (size_t i = 0; i < count; ++i) read.push_back(read_update(updates[i]));
    package->value->replace_weights(read, replace_options(options));
  });
}

aot_status* aot_package_load_weights(aot_package* package, const char* path,
                                     const aot_replace_options* options) {
  return guard([&] {
    require(package, "package");
    require(path, "path");
    const aot_rt::MappedFile file(path, "weights");
    const auto container = read_weights(file, path);
    std::vector<DLTensor> tensors;
    const auto updates = aot_rt::updates_from(container, &tensors);
    package->value->replace_weights(updates, replace_options(options));
  });
}

aot_status* aot_session_create(aot_package* package, const char* device,
                               const aot_session_options* given, aot_session** session) {
  return guard([&] {
    require(package, "package");
    require(session, "session");
    const aot_rt::DeviceName name = aot_rt::parse_device(device);
    const auto options = read_options(given, "aot_session_options");
    if (options.num_threads < 0) {
      fail(AOT_INVALID_ARGUMENT, "num_threads is ", options.num_threads);
    }
    const auto executor = read_options(options.executor, "aot_executor");
    const auto allocator = read_options(options.allocator, "aot_allocator");
    const auto device_allocator = read_options(options.device_allocator, "aot_allocator");
    if (options.executor != nullptr && (executor.workers < 1 || executor.run == nullptr)) {
      fail(AOT_INVALID_ARGUMENT, "executor: struct_size, workers and run must be set");
    }
    aot_rt::SessionOptions internal;
    internal.isa = options.isa != nullptr ? options.isa : "";
    internal.num_threads = options.num_threads;
    internal.executor = options.executor != nullptr ? &executor : nullptr;
    internal.allocator = options.allocator != nullptr ? &allocator : nullptr;
    internal.device_allocator = options.device_allocator != nullptr ? &device_allocator : nullptr;
    internal.profile = options.profile != 0;
    internal.host_outputs = options.host_outputs != 0;
    internal.graphs = options.no_graphs == 0;
    internal.synchronous = options.synchronous != 0;
    internal.own_workspace = options.own_workspace != 0;
    internal.limits = aot_rt::Limits::from(read_options(options.limits, "aot_limits"));
    *session = new aot_session{aot_rt::create_session(package->value, name, internal)};
  });
}

void aot_session_free(aot_session* session) { delete session; }

aot_status* aot_session_run(aot_session* session, const DLTensor* const* inputs, size_t input_count,
                            DLManagedTensor** outputs, size_t output_count, void* stream) {
  return run_session(session, inputs, input_count, outputs, output_count, with_stream(stream),
                     [](aot_rt::OutputBlock* block) { return block->as_plain(); });
}

aot_status* aot_session_run_versioned(aot_session* session, const DLTensor* const* inputs,
                                      size_t input_count, DLManagedTensorVersioned** outputs,
                                      size_t output_count, void* stream) {
  return run_session(session, inputs, input_count, outputs, output_count, with_stream(stream),
                     [](aot_rt::OutputBlock* block) { return block->as_versioned(); });
}

aot_status* aot_session_run_with(aot_session* session, const DLTensor* const* inputs,
                                 size_t input_count, DLManagedTensorVersioned** outputs,
                                 size_t output_count, const aot_run_options* given) {
  aot_rt::RunOptions options;
  aot_status* status = guard([&] {
    const auto read = read_options(given, "aot_run_options");
    options = {read.stream,  read.host_outputs != 0, read.timeout_ns,      read.cancellation,
               read.outputs, read.observer,          read.observer_context};
  });
  if (status != nullptr) return status;
  return run_session(session, inputs, input_count, outputs, output_count, options,
                     [](aot_rt::OutputBlock* block) { return block->as_versioned(); });
}

aot_status* aot_session_synchronize(aot_session* session) {
  return guard([&] {
    require(session, "session");
    session->value->synchronize();
  });
}

aot_status* aot_cancellation_create(aot_cancellation** cancellation) {
  return guard([&] {
    require(cancellation, "cancellation");
    *cancellation = new aot_cancellation;
  });
}

void aot_cancellation_free(aot_cancellation* cancellation) { delete cancellation; }

void aot_cancellation_cancel(aot_cancellation* cancellation) {
  cancellation->cancelled.store(true, std::memory_order_relaxed);
}

void aot_cancellation_reset(aot_cancellation* cancellation) {
  cancellation->cancelled.store(false, std::memory_order_relaxed);
}

aot_status* aot_session_output_sizes(aot_session* session, const DLTensor* const* inputs,
                                     size_t input_count, size_t index, int64_t* sizes,
                                     size_t ndim) {
  return guard([&] {
    require(session, "session");
    if (input_count != 0) require(inputs, "inputs");
    if (ndim != 0) require(sizes, "sizes");
    session->value->output_sizes(inputs, input_count, index, sizes, ndim);
  });
}

aot_status* aot_session_prewarm(aot_session* session, const DLTensor* const* inputs,
                                size_t input_count) {
  return guard([&] {
    require(session, "session");
    if (input_count != 0) require(inputs, "inputs");
    session->value->prewarm(inputs, input_count);
  });
}

aot_status* aot_session_memory(aot_session* session, aot_memory_info* info) {
  return guard([&] {
    require(session, "session");
    require(info, "info");
    const size_t room = info->struct_size;
    if (room < sizeof(size_t)) {
      fail(AOT_INVALID_ARGUMENT, "aot_memory_info: struct_size is ", room);
    }
    aot_memory_info found = session->value->memory();
    found.struct_size = room;
    std::memcpy(static_cast<void*>(info), &found, std::min(room, sizeof(found)));
  });
}

aot_status* aot_session_trim(aot_session* session) {
  return guard([&] {
    require(session, "session");
    session->value->trim();
  });
}

aot_status* aot_session_get_state(aot_session* session, size_t index, void* data, size_t size) {
  return guard([&] {
    require(session, "session");
    session->value->get_state(index, data, size);
  });
}

aot_status* aot_session_set_state(aot_session* session, size_t index, const void* data,
                                  size_t size) {
  return guard([&] {
    require(session, "session");
    session->value->set_state(index, data, size);
  });
}

aot_status* aot_session_reset(aot_session* session) {
  return guard([&] {
    require(session, "session");
    session->value->reset_states();
  });
}

aot_status* aot_session_clone(aot_session* session, aot_session** clone) {
  return guard([&] {
    require(session, "session");
    require(clone, "clone");
    *clone = new aot_session{session->value->clone()};
  });
}

DLDevice aot_session_device(const aot_session* session) { return session->value->device(); }

void* aot_session_stream(const aot_session* session) { return session->value->stream(); }

const char* aot_session_isa(const aot_session* session) { return session->value->isa().c_str(); }

int32_t aot_session_num_threads(const aot_session* session) {
  return session->value->num_threads();
}

const char* aot_cpu_isa(void) { return aot_rt::isa_name(aot_rt::cpu_isa_rank()); }

aot_status* aot_session_set_observer(aot_session* session, aot_observer_fn observer,
                                     void* context) {
  return guard([&] {
    require(session, "session");
    session->value->set_observer(observer, context);
  });
}

aot_status* aot_session_profile(aot_session* session, aot_step_profile* steps, size_t capacity,
                                size_t* count) {
  return guard([&] {
    require(session, "session");
    require(count, "count");
    if (capacity != 0) require(steps, "steps");
    session->value->profile(steps, capacity, count);
  });
}

aot_status* aot_session_profile_reset(aot_session* session) {
  return guard([&] {
    require(session, "session");
    session->value->reset_profile();
  });
}
