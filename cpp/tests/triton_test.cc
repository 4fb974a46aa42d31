// The Triton backend, driven by a server of ours through the entry points that Triton uses.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "package_builder.h"
#include "triton/server.h"

namespace {

using aot_test::Builder;
using aot_test::json;
using triton_test::alive;
using triton_test::message;

const triton_test::Backend& backend() {
  static const triton_test::Backend loaded(AOT_TRITON_BACKEND);
  return loaded;
}

// A model repository's folder with one version.
class Folder {
 public:
  explicit Folder(const Builder& builder, const char* file = "model.pkg") {
    char name[] = "/tmp/aot_triton_XXXXXX";
    path_ = mkdtemp(name);
    mkdir((path_ + "/1").c_str(), 0700);
    file_ = path_ + "/1/" + file;
    std::ofstream(file_, std::ios::binary) << builder.build();
  }
  ~Folder() {
    std::remove(file_.c_str());
    rmdir((path_ + "/1").c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string file_;
};

// A model with one instance, as the server holds it.
class Served {
 public:
  explicit Served(const Folder& folder, json config = {{"max_batch_size", 64}})
      : model_{folder.path(), std::move(config)}, instance_{&model_} {
    CHECK_EQ(message(backend().model_initialize(&model_)), "");
    CHECK_EQ(message(backend().instance_initialize(&instance_)), "");
  }
  ~Served() {
    CHECK_EQ(message(backend().instance_finalize(&instance_)), "");
    CHECK_EQ(message(backend().model_finalize(&model_)), "");
    CHECK_EQ(alive.errors + alive.messages + alive.responses, 0);
  }
  TRITONBACKEND_ModelInstance& instance() { return instance_; }
  const json& config() const { return model_.config; }

  void execute(std::vector<TRITONBACKEND_Request>& requests) {
    std::vector<TRITONBACKEND_Request*> pointers;
    for (auto& request : requests) pointers.push_back(&request);
    const auto count = static_cast<uint32_t>(pointers.size());
    CHECK_EQ(message(backend().execute(&instance_, pointers.data(), count)), "");
    for (const auto& request : requests) {
      CHECK_EQ(request.releases, 1);
      CHECK_EQ(request.responses, request.no_response ? 0 : 1);
    }
  }

 private:
  TRITONBACKEND_Model model_;
  TRITONBACKEND_ModelInstance instance_;
};

std::vector<char> bytes_of(const std::vector<float>& values) {
  std::vector<char> bytes(values.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> values_of(const TRITONBACKEND_Output& output) {
  std::vector<float> values(output.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), output.data.data(), output.data.size());
  return values;
}

std::vector<float> rows_of(int64_t rows, float first, int64_t width = 8) {
  std::vector<float> values;
  for (int64_t i = 0; i < rows * width; ++i) values.push_back(first + static_cast<float>(i % 5));
  return values;
}

TRITONBACKEND_Request request_of(int64_t rows, float first, int64_t width = 8) {
  TRITONBACKEND_Input x{TRITONSERVER_TYPE_FP32, {rows, width}, {}};
  x.buffers.push_back(bytes_of(rows_of(rows, first, width)));
  return {{{"x", x}}, {"total", "y"}};
}

// Whether the outputs are those of `small_package`.
bool is_right(const TRITONBACKEND_Request& request, int64_t rows, float first) {
  if (request.error || request.outputs.size() != 2) return false;
  const std::vector<float> x = rows_of(rows, first);
  const std::vector<float> total = values_of(request.outputs.at("total"));
  const std::vector<float> y = values_of(request.outputs.at("y"));
  if (request.outputs.at("y").shape != std::vector<int64_t>{rows, 8}) return false;
  if (request.outputs.at("total").shape != std::vector<int64_t>{rows}) return false;
  for (int64_t i = 0; i < rows; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < 8; ++j) {
      const auto at = static_cast<size_t>(i * 8 + j);
      if (y[at] != 2 * (x[at] + static_cast<float>(j))) return false;
      sum += y[at];
    }
    if (total[static_cast<size_t>(i)] != sum) return false;
  }
  return true;
}

TEST(requests_are_run_together_and_answered_apart) {
  const Folder folder(aot_test::small_package());
  Served served(folder);
  std::vector<TRITONBACKEND_Request> requests = {request_of(1, 0), request_of(3, 7),
                                                 request_of(2, -4)};
  requests[1].wanted = {"y"};
  served.execute(requests);
  CHECK(is_right(requests[0], 1, 0));
  CHECK(is_right(requests[2], 2, -4));
  CHECK_EQ(requests[1].outputs.size(), 1u);
  CHECK_EQ(requests[1].outputs.at("y").data.size(), 3u * 8 * sizeof(float));
  CHECK_EQ(served.instance().batches.back(), 6u);
  CHECK_EQ(served.instance().reported.size(), 3u);
  const std::vector<uint64_t>& times = served.instance().last_times;
  CHECK(times[0] <= times[1] && times[1] <= times[2] && times[2] <= times[3]);
}

TEST(one_wrong_request_harms_no_other) {
  const Folder folder(aot_test::small_package());
  Served served(folder);
  std::vector<TRITONBACKEND_Request> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(request_of(2, static_cast<float>(i)));
  requests[1] = request_of(2, 0, 7);                              // a size
  requests[2].inputs.clear();                                     // no input
  requests[3].inputs.at("x").buffers[0].pop_back();               // bytes
  requests[4].inputs.at("x").datatype = TRITONSERVER_TYPE_BYTES;  // strings
  requests[5].inputs.at("x").memory = TRITONSERVER_MEMORY_GPU;    // memory
  requests[6].wanted = {"nothing"};                               // an output
  served.execute(requests);
  CHECK(is_right(requests[0], 2, 0));
  CHECK(is_right(requests[7], 2, 7));
  const char* parts[] = {"7", "unknown request input", "bytes", "strings", "GPU", "nothing"};
  for (size_t i = 0; i < 6; ++i) {
    CHECK(requests[i + 1].error.has_value());
    if (!requests[i + 1].error) continue;
    const std::string& text = requests[i + 1].error->message;
    if (text.find(parts[i]) == std::string::npos) {
      aot_test::report(__FILE__, __LINE__, text + ": has no '" + parts[i] + "'");
    }
  }
  CHECK_EQ(requests[1].error->code, TRITONSERVER_ERROR_INVALID_ARG);
  CHECK_EQ(requests[2].error->code, TRITONSERVER_ERROR_NOT_FOUND);
  int succeeded = 0;
  for (const bool success : served.instance().reported) succeeded += success ? 1 : 0;
  CHECK_EQ(succeeded, 2);
}

TEST(what_fails_together_is_run_alone) {
  const Folder folder(aot_test::small_package(8, 4));  // of at most 4 rows
  Served served(folder, {{"max_batch_size", 4}});
  std::vector<TRITONBACKEND_Request> requests = {request_of(3, 0), request_of(2, 5),
                                                 request_of(5, 0)};
  served.execute(requests);
  CHECK(is_right(requests[0], 3, 0));
  CHECK(is_right(requests[1], 2, 5));
  CHECK(requests[2].error && requests[2].error->code == TRITONSERVER_ERROR_INVALID_ARG);
}

TEST(an_input_may_come_in_pieces_and_an_answer_find_no_room) {
  const Folder folder(aot_test::small_package());
  Served served(folder);
  std::vector<TRITONBACKEND_Request> requests = {request_of(2, 3), request_of(1, 0),
                                                 request_of(1, 9)};
  auto& buffers = requests[0].inputs.at("x").buffers;
  buffers.push_back({buffers[0].begin() + 20, buffers[0].end()});
  buffers[0].resize(20);
  requests[1].no_response = true;
  requests[2].output_memory = TRITONSERVER_MEMORY_GPU;
  triton_test::logged.clear();
  served.execute(requests);
  CHECK(is_right(requests[0], 2, 3));
  CHECK(!triton_test::logged.empty());
  CHECK(requests[2].error && requests[2].error->code == TRITONSERVER_ERROR_UNSUPPORTED);
}

TEST(a_configuration_is_completed_from_the_package) {
  const Folder folder(aot_test::small_package());
  TRITONBACKEND_Model model{folder.path(), json::object(), true};
  CHECK_EQ(message(backend().model_initialize(&model)), "");
  CHECK_EQ(model.config["max_batch_size"], 64);
  CHECK(model.config.contains("dynamic_batching"));
  const json x = {{"name", "x"}, {"data_type", "TYPE_FP32"}, {"dims", {8}}};
  CHECK_EQ(model.config["input"], json::array({x}));
  CHECK_EQ(model.config["output"].size(), 2u);
  CHECK_EQ(message(backend().model_finalize(&model)), "");
  CHECK_EQ(alive.errors + alive.messages, 0);
}

std::string refused(const Folder& folder, json config, uint64_t version = 1) {
  TRITONBACKEND_Model model{folder.path(), std::move(config), false, version};
  TRITONSERVER_Error* error = backend().model_initialize(&model);
  if (error == nullptr) {
    CHECK_EQ(message(backend().model_finalize(&model)), "");
  }
  return message(error);
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(a_model_that_cannot_be_served_is_refused_when_it_is_loaded) {
  const Folder folder(aot_test::small_package());
  CHECK(has(refused(folder, {{"max_batch_size", 65}}), "at most 64 rows"));
  CHECK(has(refused(folder, json::object(), 2), "/2/model.pkg"));
  CHECK(has(refused(folder, {{"input", json::array({{{"name", "z"}}})}}), "input 'z'"));
  const json keys = {{"parameters", {{"keys", {{"string_value", std::string(64, '1')}}}}}};
  CHECK(!refused(folder, keys).empty());
  CHECK(has(refused(Folder(aot_test::state_package()), {{"max_batch_size", 8}}), "must be 0"));
  CHECK_EQ(refused(Folder(aot_test::small_package(), "other.pkg"),
                   {{"default_model_filename", "other.pkg"}}),
           "");
}

TEST(an_instance_says_what_is_wrong_with_its_device_and_threads) {
  const Folder folder(aot_test::small_package());
  TRITONBACKEND_Model model{folder.path(),
                            {{"parameters", {{"num_threads", {{"string_value", "some"}}}}}}};
  CHECK_EQ(message(backend().model_initialize(&model)), "");
  TRITONBACKEND_ModelInstance instance{&model};
  CHECK(has(message(backend().instance_initialize(&instance)), "num_threads is 'some'"));
  model.config = json::object();
  CHECK_EQ(message(backend().model_finalize(&model)), "");
  CHECK_EQ(message(backend().model_initialize(&model)), "");
  instance.kind = TRITONSERVER_INSTANCEGROUPKIND_GPU;
  CHECK(!message(backend().instance_initialize(&instance)).empty());
  CHECK_EQ(message(backend().model_finalize(&model)), "");
}

TEST(states_are_of_the_instance) {
  const Folder folder(aot_test::state_package());
  Served served(folder, json::object());
  std::vector<TRITONBACKEND_Request> requests = {request_of(1, 0), request_of(1, 0)};
  for (auto& request : requests) request.wanted = {"y"};
  served.execute(requests);
  CHECK(!requests[0].error && !requests[1].error);
  CHECK(requests[0].outputs.at("y").data != requests[1].outputs.at("y").data);
}

TEST(instances_run_at_the_same_time) {
  const Folder folder(aot_test::small_package());
  TRITONBACKEND_Model model{folder.path(), {{"max_batch_size", 64}}};
  CHECK_EQ(message(backend().model_initialize(&model)), "");
  std::vector<TRITONBACKEND_ModelInstance> instances(3, TRITONBACKEND_ModelInstance{&model});
  std::vector<int> right(instances.size());
  std::vector<std::thread> threads;
  for (auto& one : instances) CHECK_EQ(message(backend().instance_initialize(&one)), "");
  for (size_t i = 0; i < instances.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 50; ++turn) {
        const int64_t rows = 1 + (turn + static_cast<int64_t>(i)) % 4;
        TRITONBACKEND_Request request = request_of(rows, static_cast<float>(turn));
        TRITONBACKEND_Request* pointer = &request;
        if (backend().execute(&instances[i], &pointer, 1) != nullptr) return;
        right[i] += is_right(request, rows, static_cast<float>(turn)) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : right) CHECK_EQ(count, 50);
  for (auto& one : instances) CHECK_EQ(message(backend().instance_finalize(&one)), "");
  CHECK_EQ(message(backend().model_finalize(&model)), "");
}

TEST(a_server_that_is_too_old_is_told_so) {
  CHECK_EQ(message(backend().initialize(nullptr)), "");
  triton_test::minor_version = TRITONBACKEND_API_VERSION_MINOR - 1;
  CHECK(has(message(backend().initialize(nullptr)), "this server has 1.9"));
  triton_test::minor_version = TRITONBACKEND_API_VERSION_MINOR;
}

}  // namespace

TEST_MAIN
