// Packages whose weights are in a file of their own: where it is looked for, and what can be wrong.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "aot/abi.h"
#include "aot/aot.hpp"
#include "check.h"
#include "package_builder.h"

namespace {

using aot_test::Builder;
using aot_test::json;

// A folder of its own, removed with what the tests write into it.
class Folder {
 public:
  Folder() { CHECK(::mkdtemp(path_.data()) != nullptr); }
  ~Folder() {
    for (const char* name : {"p.pkg", "w", "f", "e"}) ::unlink(file(name).c_str());
    ::rmdir(path_.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return path_.data() + ("/" + name); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }

 private:
  std::array<char, 32> path_{"/tmp/aot_weights_XXXXXX"};
};

// `small_package` without its bias, which is in `weights()`.
Builder package(const std::string& name = "w") {
  Builder builder = aot_test::small_package();
  for (auto at = builder.entries.begin(); at != builder.entries.end(); ++at) {
    if (at->name != "weights/bias") continue;
    builder.entries.erase(at);
    break;
  }
  builder.metadata["weights_file"] = name;
  builder.metadata["weights_sha256"] = "7";
  return builder;
}

std::string weights(const std::string& sha256 = "7", const std::string& name = "weights/bias") {
  std::string data;
  for (const Builder::Entry& entry : aot_test::small_package().entries) {
    if (entry.name == "weights/bias") data = entry.bytes;
  }
  const json row = {{"dtype", "F32"}, {"shape", {8}}, {"data_offsets", {0, data.size()}}};
  const json metadata = {
      {"format", "aot-weights"}, {"format_version", "1.0"}, {"weights_sha256", sha256}};
  return aot_test::assemble(json{{"__metadata__", metadata}, {name, row}}.dump(), data);
}

// The bias of the package; throws the status as an Error.
float last_bias(aot_package* opened, aot_status* status) {
  if (status != nullptr) {
    const aot::Error error = aot::Error::adopt(status);
    throw aot_rt::Error(error.code(), error.what());
  }
  const aot_entry_info* entry = aot_package_find_entry(opened, "weights/bias");
  CHECK(entry != nullptr);
  const float last = static_cast<const float*>(entry->data)[7];
  aot_package_free(opened);
  return last;
}

aot_package_options with(const char* file) {
  aot_package_options options{};
  options.struct_size = sizeof(options);
  options.verify = 1;
  options.weights = file;
  return options;
}

float open(const std::string& path, const char* file = nullptr) {
  const aot_package_options options = with(file);
  aot_package* opened = nullptr;
  aot_status* status = aot_package_open(path.c_str(), &options, &opened);
  return last_bias(opened, status);
}

float open_memory(const Builder& builder, const char* file) {
  const aot_test::AlignedBytes bytes(builder.build());
  const aot_package_options options = with(file);
  aot_package* opened = nullptr;
  aot_status* status =
      aot_package_open_memory(bytes.bytes().data, bytes.bytes().size, &options, &opened);
  return last_bias(opened, status);
}

TEST(beside_the_package) {
  const Folder folder;
  const std::string path = folder.write("p.pkg", package().build());
  CHECK_FAILS(open(path), AOT_NOT_FOUND, "cannot open file of weights '" + folder.file("w"));
  folder.write("w", weights());
  CHECK_EQ(open(path), 7.0f);
}

TEST(where_the_caller_says) {
  const Folder folder;
  const std::string path = folder.write("p.pkg", package("elsewhere").build());
  const std::string file = folder.write("w", weights());
  CHECK_EQ(open(path, file.c_str()), 7.0f);
  CHECK_EQ(open_memory(package(), file.c_str()), 7.0f);
  CHECK_FAILS(open_memory(package(), nullptr), AOT_INVALID_ARGUMENT, "'w': say where it is");
}

TEST(copies_do_not_see_what_becomes_of_the_files) {
  const Folder folder;
  const std::string path = folder.write("p.pkg", package().build());
  const std::string file = folder.write("w", weights());
  aot_package_options options = with(nullptr);
  options.copy = 1;
  aot_package* opened = nullptr;
  aot_status* status = aot_package_open(path.c_str(), &options, &opened);
  CHECK_EQ(::truncate(path.c_str(), 0), 0);
  CHECK_EQ(::truncate(file.c_str(), 0), 0);
  CHECK_EQ(last_bias(opened, status), 7.0f);
}

TEST(large_copies_lie_on_pages_of_their_own) {
  const Folder folder;
  const std::string text((size_t{2} << 20) + 5, 'x');
  const std::string path = folder.write("f", text);
  const aot_rt::MappedFile file(path, "file", aot_rt::Placing::kCopy);
  CHECK_EQ(file.bytes().size, text.size());
  CHECK_EQ(reinterpret_cast<uintptr_t>(file.bytes().data) % (size_t{2} << 20), 0u);
  CHECK(std::memcmp(file.bytes().data, text.data(), text.size()) == 0);
  const std::string none = folder.write("e", "");
  CHECK_EQ(aot_rt::MappedFile(none, "file", aot_rt::Placing::kCopy).bytes().size, 0u);
  CHECK_FAILS(aot_rt::MappedFile(folder.file("absent"), "file", aot_rt::Placing::kCopy),
              AOT_NOT_FOUND, "cannot open file");
}

TEST(a_package_that_holds_its_weights_takes_none) {
  const Folder folder;
  const std::string file = folder.write("w", weights());
  const std::string path = folder.write("p.pkg", aot_test::small_package().build());
  CHECK_EQ(open(path), 7.0f);
  CHECK_FAILS(open(path, file.c_str()), AOT_INVALID_ARGUMENT, "holds its weights itself");
}

TEST(callers_of_before_there_were_such_files) {
  const Folder folder;
  folder.write("w", weights());
  const std::string path = folder.write("p.pkg", package().build());
  aot_package_options options = with("not read");
  options.struct_size = offsetof(aot_package_options, weights);
  aot_package* opened = nullptr;
  aot_status* status = aot_package_open(path.c_str(), &options, &opened);
  CHECK_EQ(last_bias(opened, status), 7.0f);
}

TEST(other_files) {
  const Folder folder;
  const std::string path = folder.write("p.pkg", package().build());
  folder.write("w", weights("8"));
  CHECK_FAILS(open(path), AOT_CORRUPT_PACKAGE, "these are the weights of another package");
  folder.write("w", weights("7", "weights/factor"));
  CHECK_FAILS(open(path), AOT_CORRUPT_PACKAGE, "entry 'weights/factor' is in the package too");
  folder.write("w", weights("7", "weights/other"));
  CHECK_FAILS(open(path), AOT_CORRUPT_PACKAGE, "weights/bias");
  folder.write("w", package().build());
  CHECK_FAILS(open(path), AOT_CORRUPT_PACKAGE, "not the weights of an aot package");
  folder.write("w", weights().substr(0, 100));
  CHECK_FAILS(open(path), AOT_CORRUPT_PACKAGE, "truncated");
  folder.write("w", "");
  CHECK_FAILS(open(path), AOT_CORRUPT_PACKAGE, "the file is empty");
}

TEST(names_that_lead_elsewhere) {
  const Folder folder;
  for (const char* name : {"../w", "/etc/passwd", "..", "."}) {
    const std::string path = folder.write("p.pkg", package(name).build());
    CHECK_FAILS(open(path), AOT_CORRUPT_PACKAGE, "no plain file name");
  }
}

}  // namespace

TEST_MAIN
