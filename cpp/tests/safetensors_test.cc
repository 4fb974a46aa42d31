// One test per way in which a file can be wrong.
#include "safetensors.h"

#include "check.h"
#include "mapped_file.h"
#include "package_builder.h"

namespace {

using aot_test::AlignedBytes;
using aot_test::json;

const json kMetadata = {{"format", "aot-package"}, {"format_version", "1.0"}};

void read(const std::string& file) {
  const AlignedBytes bytes(file);
  aot_rt::Container::read(bytes.bytes());
}

json entry(const char* dtype, json shape, uint64_t begin, uint64_t end) {
  return {{"dtype", dtype}, {"shape", std::move(shape)}, {"data_offsets", {begin, end}}};
}

// A file with the given rows and `size` bytes of data.
std::string file(const json& rows, size_t size, const json& metadata = kMetadata) {
  json header = rows;
  header["__metadata__"] = metadata;
  return aot_test::assemble(header.dump(), std::string(size, '\0'));
}

json one(const json& row) { return {{"a", row}}; }

TEST(a_good_file) {
  const AlignedBytes bytes(file({{"a", entry("F32", {2, 4}, 0, 32)},
                                 {"pad/0", entry("U8", {32}, 32, 64)},
                                 {"b", entry("I64", json::array(), 64, 72)},
                                 {"empty", entry("F32", {0, 4}, 0, 0)}},
                                72));
  const auto container = aot_rt::Container::read(bytes.bytes());
  CHECK_EQ(container.entries().size(), size_t{4});
  CHECK_EQ(container.find("a")->bytes.size, size_t{32});
  CHECK_EQ(container.find("a")->shape.size(), size_t{2});
  CHECK_EQ(container.find("b")->shape.size(), size_t{0});
  CHECK(container.find("c") == nullptr);
}

TEST(not_a_package) {
  CHECK_FAILS(read(""), AOT_CORRUPT_PACKAGE, "the file is empty");
  CHECK_FAILS(read("abc"), AOT_CORRUPT_PACKAGE, "only 3 bytes");
  CHECK_FAILS(read("#!/bin/sh echo hello world, this is no package"), AOT_CORRUPT_PACKAGE,
              "not an aot package: header of");
  CHECK_FAILS(read(std::string(64, '\0')), AOT_CORRUPT_PACKAGE, "no header");
  CHECK_FAILS(read(file(json::object(), 0, {{"format", "pt"}})), AOT_CORRUPT_PACKAGE,
              "a safetensors file of format 'pt', not an aot package");
  CHECK_FAILS(read(file(json::object(), 0, json::object())), AOT_CORRUPT_PACKAGE,
              "a safetensors file, but not an aot package");
  CHECK_FAILS(read(aot_test::assemble("{}", "")), AOT_CORRUPT_PACKAGE,
              "a safetensors file, but not an aot package");
}

TEST(newer_format) {
  CHECK_FAILS(read(file(json::object(), 0, {{"format", "aot-package"}, {"format_version", "2.0"}})),
              AOT_INCOMPATIBLE, "package format 2.0");
  CHECK_FAILS(read(file(json::object(), 0, {{"format", "aot-package"}, {"format_version", "new"}})),
              AOT_CORRUPT_PACKAGE, "is not 'major.minor'");
}

TEST(header_too_large) {
  std::string bytes = file(json::object(), 0);
  bytes[4] = 1;  // 4 GB
  CHECK_FAILS(read(bytes), AOT_CORRUPT_PACKAGE, "at most 100000000 allowed");
}

TEST(header_cut_off) {
  const std::string bytes = file(one(entry("F32", {2}, 0, 8)), 8);
  CHECK_FAILS(read(bytes.substr(0, 40)), AOT_CORRUPT_PACKAGE, "truncated: header of");
}

TEST(data_cut_off) {
  const std::string bytes = file(one(entry("F32", {2}, 0, 8)), 8);
  CHECK_FAILS(read(bytes.substr(0, bytes.size() - 1)), AOT_CORRUPT_PACKAGE,
              "truncated: entry 'a' ends at data byte 8");
}

TEST(header_not_text) {
  CHECK_FAILS(read(aot_test::assemble("{\"\xff\": 1}", "")), AOT_CORRUPT_PACKAGE,
              "header: not valid UTF-8");
  CHECK_FAILS(read(aot_test::assemble("{\"a\": }", "")), AOT_CORRUPT_PACKAGE,
              "header: not valid JSON");
  CHECK_FAILS(read(aot_test::assemble("{\"a\": 1, \"a\": 2}", "")), AOT_CORRUPT_PACKAGE,
              "header: duplicate key 'a'");
}

TEST(header_misaligned) {
  const std::string text = R"({"__metadata__":{"format":"aot-package","format_version":"1.0"}} )";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(text.size());
  CHECK_FAILS(read(bytes + text), AOT_CORRUPT_PACKAGE, "misaligned: data begins at byte 73");
}

TEST(entry_misaligned) {
  CHECK_FAILS(read(file({{"a", entry("U8", {8}, 0, 8)}, {"b", entry("U8", {8}, 8, 16)}}, 16)),
              AOT_CORRUPT_PACKAGE, "misaligned: entry 'b'");
}

TEST(overlap) {
  CHECK_FAILS(
      read(file({{"a", entry("U8", {128}, 0, 128)}, {"b", entry("U8", {64}, 64, 128)}}, 128)),
      AOT_CORRUPT_PACKAGE, "entry 'b' overlaps another entry");
}

TEST(hole) {
  CHECK_FAILS(read(file({{"a", entry("U8", {8}, 0, 8)}, {"b", entry("U8", {8}, 64, 72)}}, 72)),
              AOT_CORRUPT_PACKAGE, "hole in the data before entry 'b'");
}

TEST(oversized) {
  CHECK_FAILS(read(file(one(entry("U8", {8}, 0, 8)), 9)), AOT_CORRUPT_PACKAGE,
              "oversized: 1 bytes after the last entry");
}

TEST(rows) {
  CHECK_FAILS(read(file(one(entry("F31", {2}, 0, 8)), 8)), AOT_CORRUPT_PACKAGE, "unknown dtype");
  CHECK_FAILS(read(file(one(entry("F32", {3}, 0, 8)), 8)), AOT_CORRUPT_PACKAGE,
              "has 8 bytes, but its shape needs 12");
  CHECK_FAILS(read(file(one(entry("F32", {-2}, 0, 8)), 8)), AOT_CORRUPT_PACKAGE,
              "shape[0] is -2, must be at least 0");
  CHECK_FAILS(read(file(one(entry("F32", {int64_t{1} << 40, int64_t{1} << 40}, 0, 8)), 8)),
              AOT_CORRUPT_PACKAGE, "shape is too large");
  CHECK_FAILS(read(file(one(entry("F32", {2}, 8, 0)), 8)), AOT_CORRUPT_PACKAGE,
              "data_offsets ends before it begins");
  json row = entry("F32", {2}, 0, 8);
  row["data_offsets"] = {0, 8, 16};
  CHECK_FAILS(read(file(one(row), 8)), AOT_CORRUPT_PACKAGE, "must have two elements");
  row.erase("dtype");
  CHECK_FAILS(read(file(one(row), 8)), AOT_CORRUPT_PACKAGE, "header['a'] has no member 'dtype'");
  CHECK_FAILS(read(file(one(5), 8)), AOT_CORRUPT_PACKAGE, "must be an object");
}

TEST(files_that_cannot_be_mapped) {
  CHECK_FAILS(aot_rt::MappedFile("/no/such/file"), AOT_NOT_FOUND, "No such file");
  CHECK_FAILS(aot_rt::MappedFile("/tmp"), AOT_DEVICE_ERROR, "is not a regular file");
}

}  // namespace

TEST_MAIN
