#include "instance.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <utility>

namespace triton_aot {
namespace {

uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::string device_of(TRITONBACKEND_ModelInstance* instance) {
  TRITONSERVER_InstanceGroupKind kind;
  check(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU) return "cpu";
  int32_t number = 0;
  check(TRITONBACKEND_ModelInstanceDeviceId(instance, &number));
  return "cuda:" + std::to_string(number);
}

aot::Session session_of(TRITONBACKEND_ModelInstance* instance, const Model& model) {
  aot::SessionOptions options;
  options.device = device_of(instance);
  options.isa = model.parameter("isa");
  options.host_outputs = true;
  const std::string threads = model.parameter("num_threads");
  if (!threads.empty()) {
    char* end = nullptr;
    options.num_threads = static_cast<int32_t>(std::strtol(threads.c_str(), &end, 10));
    if (*end != '\0' || options.num_threads < 1) {
      throw Failure(TRITONSERVER_ERROR_INVALID_ARG,
                    "the parameter num_threads is '" + threads + "', no number from 1");
    }
  }
  return aot::Session::create(model.package(), options).value();
}

// The inputs of all, one below the other; `memory` holds what is joined.
std::vector<aot::Tensor> joined(const std::vector<Request*>& group,
                                std::vector<std::vector<char>>* memory) {
  std::vector<aot::Tensor> tensors;
  const std::vector<Given>& first = group[0]->inputs();
  memory->resize(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    std::vector<int64_t> shape = first[i].shape;
    const char* data = first[i].data;
    if (group.size() > 1) {
      std::vector<char>& all = (*memory)[i];
      shape[0] = 0;
      for (const Request* request : group) {
        const Given& given = request->inputs()[i];
        shape[0] += given.shape[0];
        if (given.bytes != 0) all.insert(all.end(), given.data, given.data + given.bytes);
      }
      data = all.data();
    }
    tensors.push_back(aot::Tensor::borrow(data, first[i].dtype, std::move(shape), {}));
  }
  return tensors;
}

}  // namespace

Instance::Instance(TRITONBACKEND_ModelInstance* instance, const Model& model)
    : instance_(instance), model_(model), session_(session_of(instance, model)) {}

void Instance::execute(TRITONBACKEND_Request** raw, uint32_t count) {
  uint64_t times[4] = {now_ns(), 0, 0, 0};
  std::vector<Request> requests(raw, raw + count);
  for (Request& request : requests) {
    try {
      request.read(model_.package());
    } catch (const std::exception& error) {
      request.fail(error);
    }
  }
  times[1] = now_ns();
  int64_t rows = 0;
  for (const std::vector<Request*>& group : groups(requests)) {
    run_together(group);
    for (const Request* request : group) rows += model_.joins() ? request->rows() : 1;
  }
  times[2] = times[3] = now_ns();
  for (Request& request : requests) request.release(instance_, times);
  log(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance_, static_cast<uint64_t>(rows),
                                                       times[0], times[1], times[2], times[3]));
}

std::vector<std::vector<Request*>> Instance::groups(std::vector<Request>& requests) const {
  std::vector<std::vector<Request*>> all;
  std::map<std::string, size_t> places;
  for (Request& request : requests) {
    if (request.answered()) continue;
    const std::string key = model_.joins() ? request.key() : "";
    const auto found = key.empty() ? places.end() : places.find(key);
    if (found != places.end()) {
      all[found->second].push_back(&request);
    } else {
      if (!key.empty()) places.emplace(key, all.size());
      all.push_back({&request});
    }
  }
  return all;
}

// What fails together is run alone, so that a request answers for itself.
void Instance::run_together(const std::vector<Request*>& group) {
  try {
    run(group);
  } catch (const std::exception& error) {
    for (Request* request : group) {
      if (request->answered()) continue;
      if (group.size() > 1) {
        run_together({request});
      } else {
        request->fail(error);
      }
    }
  }
}

void Instance::run(const std::vector<Request*>& group) {
  std::vector<std::vector<char>> memory;
  const std::vector<aot::Tensor> outputs = session_.run(joined(group, &memory)).value();
  int64_t begin = 0;
  for (Request* request : group) {
    request->answer(model_.package(), outputs, group.size() > 1, begin);
    begin += group.size() > 1 ? request->rows() : 0;
  }
}

}  // namespace triton_aot
