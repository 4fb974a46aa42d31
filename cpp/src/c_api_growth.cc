// The C interface of names, and of what lets programs and libraries of different age work together.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "aot/abi.h"
#include "handles.h"
#include "status.h"

namespace {

using aot_rt::fail;
using aot_rt::guard;
using aot_rt::require;

// Promises, in the order in which they came. A name is never taken away.
constexpr const char* kFeatures[] = {
    "cancel",            // aot_run_options.cancellation and timeout_ns
    "callers_outputs",   // aot_run_options.outputs
    "device_allocator",  // aot_session_options.device_allocator
    "files",             // aot_package_read_file
    "limits",            // aot_session_options.limits
    "names",             // aot_package_find_input and so on
    "nvtx",              // aot_trace_options.nvtx
    "perf_map",          // aot_package_write_perf_map
    "policy",            // aot_package_options.policy
    "prewarm",           // aot_session_prewarm and so on
    "trace",             // aot_session_trace_begin
    "refuses_unknown",   // a newer struct's fields are refused, not dropped
    "copy"               // aot_package_options.copy
};
constexpr size_t kFeatureCount = sizeof(kFeatures) / sizeof(*kFeatures);

constexpr std::pair<const char*, size_t> kStructs[] = {
    {"aot_allocator", sizeof(aot_allocator)},
    {"aot_dim_info", sizeof(aot_dim_info)},
    {"aot_entry_info", sizeof(aot_entry_info)},
    {"aot_executor", sizeof(aot_executor)},
    {"aot_limits", sizeof(aot_limits)},
    {"aot_memory_info", sizeof(aot_memory_info)},
    {"aot_package_options", sizeof(aot_package_options)},
    {"aot_policy", sizeof(aot_policy)},
    {"aot_replace_options", sizeof(aot_replace_options)},
    {"aot_run_options", sizeof(aot_run_options)},
    {"aot_session_options", sizeof(aot_session_options)},
    {"aot_step_profile", sizeof(aot_step_profile)},
    {"aot_tensor_info", sizeof(aot_tensor_info)},
    {"aot_trace_event", sizeof(aot_trace_event)},
    {"aot_trace_options", sizeof(aot_trace_options)},
    {"aot_weight_update", sizeof(aot_weight_update)},
};

// Programs step through arrays of these by the size that they were compiled with.
static_assert(sizeof(aot_dim_info) == 40, "aot_dim_info never grows");
static_assert(sizeof(aot_step_profile) == 32,
              "aot_session_profile writes elements of 32 bytes: when the struct grows, it writes "
              "them apart");

aot_status* find(const std::vector<aot_tensor_info>& infos, const char* what, const char* name,
                 size_t* index) {
  return guard([&] {
    require(name, "name");
    require(index, "index");
    const auto named = [name](const aot_tensor_info& info) {
      return std::strcmp(info.name, name) == 0;
    };
    const auto found = std::find_if(infos.begin(), infos.end(), named);
    if (found == infos.end()) {
      std::string names;
      for (const aot_tensor_info& info : infos) {
        names += aot_rt::cat(names.empty() ? "'" : ", '", info.name, "'");
      }
      fail(AOT_NOT_FOUND, "the model has no ", what, " '", name, "'; it has ",
           names.empty() ? "none" : names);
    }
    *index = static_cast<size_t>(found - infos.begin());
  });
}

}  // namespace

aot_status* aot_package_find_input(const aot_package* package, const char* name, size_t* index) {
  return find(package->value->inputs(), "input", name, index);
}

aot_status* aot_package_find_output(const aot_package* package, const char* name, size_t* index) {
  return find(package->value->outputs(), "output", name, index);
}

aot_status* aot_package_find_state(const aot_package* package, const char* name, size_t* index) {
  return find(package->value->states(), "state", name, index);
}

int32_t aot_has_feature(const char* name) {
  const auto same = [name](const char* feature) { return std::strcmp(feature, name) == 0; };
  return name != nullptr && std::any_of(kFeatures, kFeatures + kFeatureCount, same) ? 1 : 0;
}

const char* aot_feature_name(size_t index) {
  return index < kFeatureCount ? kFeatures[index] : nullptr;
}

size_t aot_struct_size(const char* name) {
  for (const auto& [known, size] : kStructs) {
    if (name != nullptr && std::strcmp(known, name) == 0) return size;
  }
  return 0;
}

const aot_dim_info* aot_tensor_dim(const aot_tensor_info* tensor, size_t axis) {
  const bool there = tensor != nullptr && axis < static_cast<size_t>(tensor->ndim);
  return there ? &tensor->dims[axis] : nullptr;
}

aot_status* aot_session_step_profiles(aot_session* session, aot_step_profile* steps,
                                      size_t element_size, size_t capacity, size_t* count) {
  return guard([&] {
    require(session, "session");
    require(count, "count");
    if (capacity != 0) require(steps, "steps");
    if (element_size == 0) {
      fail(AOT_INVALID_ARGUMENT, "element_size is 0, set it to sizeof(aot_step_profile)");
    }
    size_t known = 0;
    session->value->profile(nullptr, 0, &known);
    std::vector<aot_step_profile> read(std::min(known, capacity));
    session->value->profile(read.data(), read.size(), &known);
    auto* to = reinterpret_cast<uint8_t*>(steps);
    for (const aot_step_profile& step : read) {
      const size_t given = std::min(element_size, sizeof(step));
      std::memcpy(to, &step, given);
      std::memset(to + given, 0, element_size - given);
      to += element_size;
    }
    *count = known;
  });
}
