// Round trips of one connection to aot-serve on this machine, as one line of JSON:
//   aot_serve_latency HTTP_PORT GRPC_PORT MODEL INPUT COLUMNS [SECONDS]
// MODEL takes one float32 input of [1, COLUMNS]. Asked in turn, in slices of 200: whether the
// server lives, and the model, over HTTP and over gRPC. The median of each and the tenth of
// slowest, in us; what a run adds is the difference, in which this client's own work for a message
// is.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "open_inference.grpc.pb.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSlice = 200;

// A kept connection: sends a request, and reads the answer by the length that its header says.
class Http {
 public:
  explicit Http(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("no HTTP server on port " + std::to_string(port));
    }
  }
  ~Http() { close(socket_); }
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  void ask(const std::string& request) {
    if (send(socket_, request.data(), request.size(), 0) != static_cast<ssize_t>(request.size())) {
      throw std::runtime_error("the request was not sent");
    }
    size_t have = 0;
    size_t wanted = sizeof(buffer_);
    while (have < wanted) {
      const ssize_t got = recv(socket_, buffer_ + have, sizeof(buffer_) - 1 - have, 0);
      if (got <= 0) throw std::runtime_error("the server has closed the connection");
      have += static_cast<size_t>(got);
      buffer_[have] = 0;
      const char* end = std::strstr(buffer_, "\r\n\r\n");
      const char* length = strcasestr(buffer_, "content-length:");
      if (end == nullptr || length == nullptr) continue;
      wanted = static_cast<size_t>(end + 4 - buffer_) + std::strtoul(length + 15, nullptr, 10);
    }
    if (std::strncmp(buffer_, "HTTP/1.1 200", 12) != 0) throw std::runtime_error(buffer_);
  }

 private:
  int socket_;
  char buffer_[65536];
};

std::string infer_request(const std::string& model, const std::string& input, size_t columns) {
  const std::vector<char> row(columns * sizeof(float));
  const std::string head = R"({"inputs":[{"name":")" + input +
                           R"(","datatype":"FP32","shape":[1,)" + std::to_string(columns) +
                           R"(],"parameters":{"binary_data_size":)" + std::to_string(row.size()) +
                           R"(}}],"parameters":{"binary_data_output":true}})";
  return "POST /v2/models/" + model + "/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(head.size() + row.size()) +
         "\r\nInference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n\r\n" + head +
         std::string(row.begin(), row.end());
}

void expect(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error_message());
}

struct Kind {
  const char* name;
  std::function<void()> ask;
  std::vector<double> us;
};

void ask_in_turn(std::vector<Kind>& kinds, double seconds) {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  for (bool warm = false; !warm || Clock::now() < end; warm = true) {
    for (Kind& kind : kinds) {
      for (int i = 0; i < kSlice; ++i) {
        const Clock::time_point begun = Clock::now();
        kind.ask();
        const std::chrono::duration<double, std::micro> took = Clock::now() - begun;
        if (warm) kind.us.push_back(took.count());
      }
    }
  }
}

void print(std::vector<Kind>& kinds) {
  const char* before = "{";
  for (Kind& kind : kinds) {
    std::sort(kind.us.begin(), kind.us.end());
    const size_t count = kind.us.size();
    std::printf("%s\"%s\": {\"p50\": %.1f, \"p90\": %.1f, \"count\": %zu}", before, kind.name,
                count > 0 ? kind.us[count / 2] : 0, count > 0 ? kind.us[count * 9 / 10] : 0, count);
    before = ", ";
  }
  std::puts("}");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6) {
    throw std::runtime_error(
        "usage: aot_serve_latency HTTP_PORT GRPC_PORT MODEL INPUT COLUMNS [SECONDS]");
  }
  const std::string model = argv[3];
  const std::string input = argv[4];
  const size_t columns = std::strtoul(argv[5], nullptr, 10);
  Http http(std::atoi(argv[1]));
  const std::string live = "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string infer = infer_request(model, input, columns);
  const auto stub = inference::GRPCInferenceService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::string(argv[2]), grpc::InsecureChannelCredentials()));
  inference::ModelInferRequest message;
  message.set_model_name(model);
  auto* tensor = message.add_inputs();
  tensor->set_name(input);
  tensor->set_datatype("FP32");
  tensor->add_shape(1);
  tensor->add_shape(static_cast<int64_t>(columns));
  message.add_raw_input_contents(std::string(columns * sizeof(float), '\0'));

  std::vector<Kind> kinds;
  kinds.push_back({"http_live", [&] { http.ask(live); }, {}});
  kinds.push_back({"http_infer", [&] { http.ask(infer); }, {}});
  kinds.push_back({"grpc_live",
                   [&] {
                     grpc::ClientContext context;
                     inference::ServerLiveResponse reply;
                     expect(stub->ServerLive(&context, {}, &reply));
                   },
                   {}});
  kinds.push_back({"grpc_infer",
                   [&] {
                     grpc::ClientContext context;
                     inference::ModelInferResponse reply;
                     expect(stub->ModelInfer(&context, message, &reply));
                   },
                   {}});
  ask_in_turn(kinds, argc > 6 ? std::atof(argv[6]) : 5);
  print(kinds);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
