// A server that loads a backend as Triton does, and asks it through the same entry points.
#ifndef AOT_TESTS_TRITON_SERVER_H_
#define AOT_TESTS_TRITON_SERVER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "triton/core/tritonbackend.h"

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string message;
};

struct TRITONSERVER_Message {
  std::string text;
};

struct TRITONBACKEND_Model {
  std::string folder;
  nlohmann::json config;
  bool completes = false;
  uint64_t version = 1;
  void* state = nullptr;
};

struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model;
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;
  int32_t device = 0;
  void* state = nullptr;
  std::vector<bool> reported = {};        // whether each request succeeded
  std::vector<uint64_t> batches = {};     // rows of each execution
  std::vector<uint64_t> last_times = {};  // of the last request
};

struct TRITONBACKEND_Input {
  TRITONSERVER_DataType datatype;
  std::vector<int64_t> shape;
  std::vector<std::vector<char>> buffers;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
};

struct TRITONBACKEND_Output {
  TRITONSERVER_DataType datatype;
  std::vector<int64_t> shape;
  std::vector<char> data = {};
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
};

struct TRITONBACKEND_Response {
  struct TRITONBACKEND_Request* request;
  std::map<std::string, TRITONBACKEND_Output> outputs = {};
};

struct TRITONBACKEND_Request {
  std::map<std::string, TRITONBACKEND_Input> inputs;
  std::vector<std::string> wanted;
  TRITONSERVER_MemoryType output_memory = TRITONSERVER_MEMORY_CPU;
  bool no_response = false;  // the server has no room for one
  // What came of it:
  int responses = 0;
  int releases = 0;
  std::map<std::string, TRITONBACKEND_Output> outputs = {};
  std::optional<TRITONSERVER_Error> error = std::nullopt;
};

namespace triton_test {

// The objects that the backend has and has not given back.
struct Counts {
  std::atomic<int> errors{0};
  std::atomic<int> messages{0};
  std::atomic<int> responses{0};
};
extern Counts alive;
extern uint32_t minor_version;  // of the API that the server says it has
extern std::vector<std::string> logged;

// The backend's entry points.
struct Backend {
  explicit Backend(const char* path);

  decltype(&TRITONBACKEND_Initialize) initialize;
  decltype(&TRITONBACKEND_ModelInitialize) model_initialize;
  decltype(&TRITONBACKEND_ModelFinalize) model_finalize;
  decltype(&TRITONBACKEND_ModelInstanceInitialize) instance_initialize;
  decltype(&TRITONBACKEND_ModelInstanceFinalize) instance_finalize;
  decltype(&TRITONBACKEND_ModelInstanceExecute) execute;
};

// The message of an error, which is deleted; "" for none.
std::string message(TRITONSERVER_Error* error);

}  // namespace triton_test

#endif  // AOT_TESTS_TRITON_SERVER_H_
