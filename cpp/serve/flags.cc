#include "flags.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

namespace serve {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw aot::Error(AOT_INVALID_ARGUMENT, what + "; see aot-serve --help");
}

// One option: `read` gets its value, "" for one that has none.
struct Flag {
  std::string name;
  std::string value;  // what the help calls it; "": none is wanted
  std::string help;
  std::function<void(const std::string&)> read;
};

int64_t number(const std::string& name, const std::string& text, int64_t least, int64_t most) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (!text.empty() && *end == '\0' && errno == 0 && value >= least && value <= most) return value;
  fail(name + " must be a number from " + std::to_string(least) + " to " + std::to_string(most) +
       ", not '" + text + "'");
}

template <typename T>
std::function<void(const std::string&)> into(const char* name, T& field, int64_t least,
                                             int64_t most, int64_t unit = 1) {
  return [=, &field](const std::string& text) {
    field = static_cast<T>(number(name, text, least, most) * unit);
  };
}

std::function<void(const std::string&)> into(const char* name, std::chrono::seconds& field) {
  return [=, &field](const std::string& text) {
    field = std::chrono::seconds(number(name, text, 1, 86'400));
  };
}

// A key as it is, or the text of the file of that name.
std::string key_text(const std::string& given) {
  const bool digits =
      given.size() == 64 && given.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (digits || given.rfind("-----BEGIN", 0) == 0) return given;
  std::ifstream file(given);
  if (!file) fail("--key: there is no file '" + given + "', nor is this a public key");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

LogLevel log_level(const std::string& text) {
  const char* const names[] = {"debug", "info", "warning", "error"};
  for (int i = 0; i < 4; ++i) {
    if (text == names[i]) return static_cast<LogLevel>(i);
  }
  fail("--log must be debug, info, warning or error, not '" + text + "'");
}

std::vector<Flag> table(Flags& flags) {
  HttpOptions& http = flags.http;
  aot::Policy& policy = flags.package.policy;
  const int64_t mega = 1 << 20;
  return {
      {"--host", "ADDRESS", "address to listen on (127.0.0.1: this machine alone)",
       [&](const std::string& text) { http.host = text; }},
      {"--http-port", "PORT", "port of HTTP (8000); 0: any that is free",
       into("--http-port", http.port, 0, 65535)},
#if defined(AOT_SERVE_GRPC)
      {"--grpc-port", "PORT", "port of gRPC (none); 0: any that is free",
       [&](const std::string& text) {
         flags.grpc_port = static_cast<uint16_t>(number("--grpc-port", text, 0, 65535));
       }},
#endif
      {"--http-threads", "N", "threads that read and write HTTP (2)",
       into("--http-threads", http.threads, 1, 256)},
      {"--max-connections", "N", "HTTP connections at a time (1024)",
       into("--max-connections", http.max_connections, 1, 1'000'000)},
      {"--max-header-kb", "N", "of a request's header (16)",
       into("--max-header-kb", http.max_header, 1, 1024, 1024)},
      {"--max-body-mb", "N", "of a request's body or message (64)",
       into("--max-body-mb", http.max_body, 1, 2047, mega)},
      {"--max-memory-mb", "N", "of all requests being read and answered (1024)",
       into("--max-memory-mb", http.max_memory, 1, 1 << 20, mega)},
      {"--header-time", "SECONDS", "for a header to arrive (10)",
       into("--header-time", http.header_time)},
      {"--body-time", "SECONDS", "for a body to arrive (60)", into("--body-time", http.body_time)},
      {"--write-time", "SECONDS", "for an answer to be read (60)",
       into("--write-time", http.write_time)},
      {"--idle-time", "SECONDS", "that a connection may wait for a request (120)",
       into("--idle-time", http.idle_time)},
      {"--drain-delay", "SECONDS", "that are accepted after SIGTERM while not ready (0)",
       into("--drain-delay", flags.drain_delay_s, 0, 3600)},
      {"--drain-time", "SECONDS", "for requests under way after SIGTERM (30)",
       into("--drain-time", flags.drain_time_s, 1, 3600)},
      {"--allow-control", "", "clients may load and unload models",
       [&](const std::string&) { flags.service.allow_control = true; }},
      {"--log", "LEVEL", "debug, info, warning or error (info)",
       [&](const std::string& text) { flags.log = log_level(text); }},
      {"--log-requests", "", "a line for every request, not for failures alone",
       [&](const std::string&) { flags.service.log_requests = true; }},
      {"--key", "KEY", "a public key, or its file: packages must be signed by it; may be repeated",
       [&](const std::string& text) { policy.keys.push_back(key_text(text)); }},
      {"--signatures", "N", "how many of the keys must have signed (1)",
       into("--signatures", policy.signatures, 1, 1000)},
      {"--code", "SHA256", "allow this code, and none that is not named; may be repeated",
       [&](const std::string& text) {
         policy.only_listed_code = true;
         policy.code.push_back(text);
       }},
      {"--no-operator-libraries", "", "refuse packages that carry custom operators",
       [&](const std::string&) { policy.operator_libraries = false; }},
      {"--require-proved", "", "refuse packages whose kernels do not declare what they touch",
       [&](const std::string&) { policy.require_proved = true; }},
      {"--trust-weights", "", "with --key: do not check weights' bytes",
       [&](const std::string&) { policy.trust_weights = true; }},
      {"--verify", "", "check every byte of a package when it is loaded",
       [&](const std::string&) { flags.package.verify = true; }},
      {"--copy", "", "read packages into memory, in large pages, in place of mapping their files",
       [&](const std::string&) { flags.package.copy = true; }},
  };
}

void print_help(const std::vector<Flag>& flags) {
  std::printf(
      "usage: aot-serve MODELS [OPTION]…\n\n"
      "Serves the packages MODELS/NAME/VERSION/model.pkg by the Open Inference Protocol.\n\n");
  for (const Flag& flag : flags) {
    const std::string left = flag.name + (flag.value.empty() ? "" : " " + flag.value);
    std::printf("  %-26s %s\n", left.c_str(), flag.help.c_str());
  }
  std::printf("  %-26s %s\n  %-26s %s\n", "--help", "this text", "--version", "the version");
}

}  // namespace

std::optional<Flags> read_flags(int argc, char** argv) {
  Flags flags;
  const std::vector<Flag> known = table(flags);
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--help") {
      print_help(known);
      return std::nullopt;
    }
    if (word == "--version") {
      std::printf("aot-serve %s\n", aot_runtime_version());
      return std::nullopt;
    }
    if (word.rfind("--", 0) != 0) {
      if (!flags.repository.empty()) fail("there is one folder of models, not also '" + word + "'");
      flags.repository = word;
      continue;
    }
    std::optional<std::string> value;
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
      word.resize(equals);
    }
    const Flag* found = nullptr;
    for (const Flag& flag : known) {
      if (flag.name == word) found = &flag;
    }
    if (found == nullptr) fail("there is no option " + word);
    if (found->value.empty() && value) fail(word + " takes no value");
    if (!found->value.empty() && !value) {
      if (++i == argc) fail(word + " needs a value: " + found->value);
      value = argv[i];
    }
    found->read(value.value_or(""));
  }
  if (flags.repository.empty()) fail("name the folder of models: aot-serve MODELS");
  return flags;
}

}  // namespace serve
