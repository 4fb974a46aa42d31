#include "package_builder.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "error.h"
#include "sha256.h"

namespace aot_test {
namespace {

std::string hash(const std::string& bytes) {
  return aot_rt::sha256_hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

json tensor(const char* name, const char* dtype, json shape, json strides) {
  return {{"name", name},
          {"dtype", dtype},
          {"shape", std::move(shape)},
          {"strides", std::move(strides)}};
}

json buffer(const char* name, json bytes, json storage, const char* dtype = "float32") {
  return {{"name", name},
          {"dtype", dtype},
          {"bytes", std::move(bytes)},
          {"storage", std::move(storage)}};
}

json step(int kernel, json buffers, json sizes, json work, int grain, json scratch, json origin) {
  return {{"kernel", kernel},
          {"buffers", std::move(buffers)},
          {"sizes", std::move(sizes)},
          {"work", std::move(work)},
          {"grain", grain},
          {"scratch", std::move(scratch)},
          {"origin", std::move(origin)}};
}

json entry_storage(const char* name) { return {{"kind", "entry"}, {"entry", name}, {"offset", 0}}; }
json indexed(const char* kind, int index) { return {{"kind", kind}, {"index", index}}; }

json dim(const char* name, const char* label, json most, int64_t multiple) {
  return {{"name", name},
          {"label", label},
          {"min", 0},
          {"max", std::move(most)},
          {"multiple_of", multiple},
          {"source", {{"input", 0}, {"axis", 0}, {"divisor", 1}, {"offset", 0}}}};
}

json empty_plan(const char* model) {
  json kernels = json::array();
  for (const char* name : {"add_bias", "scale", "row_sum", "gather", "copy_bytes"}) {
    kernels.push_back({{"name", name}});
  }
  return {{"format", {1, 0}},
          {"compiler", "by hand"},
          {"model", model},
          {"dims", json::array()},
          {"inputs", json::array()},
          {"outputs", json::array()},
          {"signature", {{"parameters", json::array()}, {"result", {{"tuple", json::array()}}}}},
          {"checks", json::array()},
          {"origins", json::array()},
          {"programs",
           {{{"device", "cpu"},
             {"arch", ""},
             {"buffers", json::array()},
             {"arena", json::array()},
             {"libraries", json::array()},
             {"kernels", kernels},
             {"steps", json::array()},
             {"outputs", json::array()}}}},
          {"entries", json::object()},
          {"golden", json::array()}};
}

}  // namespace

AlignedBytes::AlignedBytes(const std::string& bytes)
    : data_(static_cast<uint8_t*>(std::aligned_alloc(64, (bytes.size() + 64) / 64 * 64))),
      size_(bytes.size()) {
  std::memcpy(data_, bytes.data(), bytes.size());
}

AlignedBytes::~AlignedBytes() { std::free(data_); }

std::string assemble(const std::string& header, const std::string& data) {
  std::string text = header;
  while ((text.size() + 8) % 64 != 0) text += ' ';
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(text.size() >> (8 * i));
  return file + text + data;
}

const std::string& kernel_binary() {
  static const std::string binary = [] {
    std::ifstream file(AOT_TEST_KERNELS, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    if (content.str().empty()) throw std::runtime_error("cannot read " AOT_TEST_KERNELS);
    return content.str();
  }();
  return binary;
}

void Builder::add(const std::string& name, const std::string& dtype, const json& shape,
                  const std::string& bytes) {
  entries.push_back({name, dtype, shape, bytes});
  plan["entries"][name] = hash(bytes);
}

void Builder::add_floats(const std::string& name, const std::vector<float>& values) {
  const char* data = reinterpret_cast<const char*>(values.data());
  add(name, "F32", json::array({values.size()}), std::string(data, values.size() * 4));
}

void Builder::add_library(const std::string& isa) {
  const std::string name = "kernels/cpu/" + isa;
  add(name, "U8", json::array({kernel_binary().size()}), kernel_binary());
  program()["libraries"].push_back(
      {{"entry", name}, {"isa", isa}, {"sha256", plan["entries"][name]}});
}

json Builder::layout(std::string* data) const {
  json header = {{"__metadata__", metadata}};
  int pads = 0;
  const auto place = [&](const std::string& name, const std::string& dtype, const json& shape,
                         const std::string& bytes) {
    if (const size_t gap = (64 - data->size() % 64) % 64; gap != 0) {
      header["pad/" + std::to_string(pads++)] = {
          {"dtype", "U8"}, {"shape", {gap}}, {"data_offsets", {data->size(), data->size() + gap}}};
      data->append(gap, '\0');
    }
    header[name] = {{"dtype", dtype},
                    {"shape", shape},
                    {"data_offsets", {data->size(), data->size() + bytes.size()}}};
    *data += bytes;
  };
  const std::string text = plan.dump();
  place("plan", "U8", json::array({text.size()}), text);
  for (const Entry& entry : entries) place(entry.name, entry.dtype, entry.shape, entry.bytes);
  return header;
}

std::string Builder::build() const {
  std::string data;
  const std::string header = layout(&data).dump();
  return assemble(header, data);
}

Builder small_package(int64_t width, int64_t most, int64_t multiple) {
  Builder b;
  const int64_t row = width * 4;
  b.plan = empty_plan("small");
  b.plan["dims"] = json::array({dim("s0", "batch", most == 0 ? json() : json(most), multiple)});
  b.plan["inputs"] = json::array({tensor("x", "float32", {"s0", width}, {width, 1})});
  b.plan["outputs"] = json::array(
      {tensor("y", "float32", {"s0", width}, {width, 1}), tensor("total", "float32", {"s0"}, {1})});
  b.program()["buffers"] = json::array({buffer("x", {"*", row, "s0"}, indexed("input", 0)),
                                        buffer("bias", row, entry_storage("weights/bias")),
                                        buffer("factor", 4, entry_storage("weights/factor")),
                                        buffer("sum", {"*", row, "s0"}, {{"kind", "arena"}}),
                                        buffer("y", {"*", row, "s0"}, indexed("output", 0)),
                                        buffer("total", {"*", 4, "s0"}, indexed("output", 1))});
  b.program()["arena"] = json::array({{{"buffer", 3}, {"above", json::array()}}});
  b.program()["outputs"] = {4, 5};
  b.plan["origins"] = json::array(
      {{{"file", "small.py"}, {"line", 3}, {"operator", "aten.add.Tensor"}, {"code", "x + b"}}});
  b.program()["steps"] =
      json::array({step(0, {0, 1, 3}, {width}, "s0", 4, 0, 0),
                   step(1, {3, 2, 4}, json::array(), {"*", width, "s0"}, 32, 0, nullptr),
                   step(2, {4, 5}, {width}, "s0", 4, row, nullptr)});
  std::vector<float> bias;
  for (int64_t i = 0; i < width; ++i) bias.push_back(static_cast<float>(i));
  b.add_library();
  b.add_floats("weights/bias", bias);
  b.add_floats("weights/factor", {2.0f});
  return b;
}

Builder state_package() {
  Builder b = small_package();
  b.plan["inputs"][0]["changed"] = true;
  b.plan["states"] = json::array(
      {{{"name", "bias"}, {"dtype", "float32"}, {"shape", {8}}, {"entry", "weights/bias"}}});
  b.program()["buffers"][1]["storage"] = indexed("state", 0);
  b.program()["updates"] =
      json::array({{{"input", 0}, {"buffer", 3}}, {{"state", 0}, {"buffer", 3}}});
  return b;
}

Builder operator_package() {
  Builder b = small_package();
  const auto argument = [](const char* name, const char* kind, json values) {
    return json{{"name", name}, {"kind", kind}, {"values", std::move(values)}};
  };
  const auto tensor_in = [](int buffer) { return json{{"buffer", buffer}, {"shape", {"s0", 8}}}; };
  b.program()["steps"][1] = {
      {"call", "demo::scale"},
      {"arguments", json::array({argument("x", "tensor", json::array({tensor_in(3)})),
                                 argument("factor", "float", json::array({2.0})),
                                 argument("rows", "int", json::array({"s0"})),
                                 argument("mode", "string", json::array({"plain"})),
                                 argument("checked", "bool", json::array({true})),
                                 argument("axes", "int[]", json::array({0, 1})),
                                 argument("bias", "none", json::array())})},
      {"results", json::array({tensor_in(4)})},
      {"origin", 0}};
  return b;
}

Builder swappable_package(bool originals, int64_t width) {
  Builder b = small_package(width);
  const auto weight = [](const char* name, const char* dtype, json shape, const std::string& entry,
                         bool required) {
    return json{{"name", name},
                {"dtype", dtype},
                {"shape", std::move(shape)},
                {"aliases", json::array()},
                {"entry", entry},
                {"required", required}};
  };
  b.plan["weights"] = json::array(
      {weight("base", "float32", json::array({width}), originals ? "weights/base" : "", true),
       weight("shift", "float32", json::array({width}), originals ? "weights/shift" : "", true),
       weight("factor", "float32", json::array({1}), "weights/factor", true),
       weight("extra", "int64", json::array(), "", false)});
  b.plan["weights"][2]["aliases"] = {"tied"};
  for (Builder::Entry& entry : b.entries) {
    if (entry.name != "weights/bias") continue;
    if (originals) {
      b.entries.push_back({"weights/base", "F32", entry.shape, entry.bytes});
      b.plan["entries"]["weights/base"] = hash(entry.bytes);
      b.add_floats("weights/shift", std::vector<float>(static_cast<size_t>(width), 0.0f));
    }
    break;
  }
  const json spec = json::array({width});
  json routine = {
      {"inputs",
       {tensor("source0", "float32", spec, {1}), tensor("source1", "float32", spec, {1})}},
      {"results", json::array({tensor("result", "float32", spec, {1})})},
      {"buffers",
       {buffer("source0", 4 * width, indexed("input", 0)),
        buffer("source1", 4 * width, indexed("input", 1)),
        buffer("result", 4 * width, indexed("output", 0))}},
      {"arena", json::array()},
      {"steps", json::array({step(0, {0, 1, 2}, {width}, 1, 1, 0, 0)})},
      {"outputs", {2}}};
  b.program()["weights"] = {
      {"routines", json::array({std::move(routine)})},
      {"derived",
       json::array({{{"entry", "weights/bias"}, {"sources", {"base", "shift"}}, {"routine", 0}}})}};
  return b;
}

Builder gather_package() {
  Builder b;
  b.plan = empty_plan("gather");
  b.plan["dims"] = json::array({dim("n", "n", nullptr, 1)});
  b.plan["inputs"] = json::array({tensor("index", "int64", {"n"}, {1})});
  b.plan["outputs"] = json::array({tensor("y", "float32", {"n"}, {1})});
  b.program()["buffers"] =
      json::array({buffer("table", 20, entry_storage("weights/table")),
                   buffer("index", {"*", 8, "n"}, indexed("input", 0), "int64"),
                   buffer("y", {"*", 4, "n"}, indexed("output", 0))});
  b.plan["origins"] = json::array({{{"file", "model.py"},
                                    {"line", 12},
                                    {"operator", "aten.embedding.default"},
                                    {"code", "table[i]"}}});
  b.program()["steps"] = json::array({step(3, {0, 1, 2}, {5}, "n", 1, 0, 0)});
  b.program()["outputs"] = {2};
  b.add_library();
  b.add_floats("weights/table", {10, 11, 12, 13, 14});
  return b;
}

void add_device_program(Builder* builder, const std::string& device, const std::string& arch) {
  const std::string entry = "kernels/" + device + "/" + arch + "/scale";
  builder->add(entry, "U8", {4}, "CODE");
  json program = builder->program();
  program["device"] = device;
  program["arch"] = arch;
  program["libraries"] = json::array();
  program["kernels"] = json::array({{{"name", "scale"},
                                     {"entry", entry},
                                     {"sha256", builder->plan["entries"][entry]},
                                     {"symbol", "scale"},
                                     {"threads", 128},
                                     {"shared", 0},
                                     {"scratch", 0},
                                     {"scratch_alignment", 1},
                                     {"faults", false}}});
  program["steps"] = json::array({{{"kernel", 0},
                                   {"buffers", {0, 1, 4}},
                                   {"sizes", {"s0"}},
                                   {"grid", {"s0", 1, 1}},
                                   {"origin", 0}}});
  builder->plan["programs"].push_back(program);
}

std::string declarations(const json& kernels) {
  std::string text = json{{"kernels", kernels}}.dump();
  const size_t size = text.size();
  for (size_t i = 0; i < 8; ++i) text += static_cast<char>(size >> (8 * i));
  return text + "AOTDECL1";
}

namespace {

json touched(const json& bytes, const char* access, const char* dtype = "float32") {
  return {{"dtype", dtype}, {"bytes", bytes}, {"access", access}};
}

// Of kernels with these variables, the first of which is the work.
json declaration(const char* name, int variables, json sizes, json buffers, json scratch = 0) {
  json dims = json::array();
  for (int i = 0; i < variables; ++i) {
    dims.push_back({{"min", 0}, {"max", nullptr}, {"multiple_of", 1}});
  }
  return {{"name", name},
          {"dims", std::move(dims)},
          {"relations", json::array()},
          {"sizes", std::move(sizes)},
          {"buffers", std::move(buffers)},
          {"work", "v0"},
          {"scratch", std::move(scratch)}};
}

void give_values(json* steps) {
  for (json& step : *steps) {
    if (!step.contains("kernel")) continue;
    step["values"] = json::array({step["work"]});
    for (const json& size : step["sizes"]) step["values"].push_back(size);
  }
}

}  // namespace

json test_declarations() {
  const json all = {"*", 4, "v0"};
  const json rows = {"*", 4, "v0", "v1"};
  const json columns = {"*", 4, "v1"};
  const json one = json::array({"v1"});
  return json::array(
      {declaration("add_bias", 2, one,
                   {touched(rows, "read"), touched(columns, "read"), touched(rows, "write")}),
       declaration("scale", 1, json::array(),
                   {touched(all, "read"), touched(4, "read"), touched(all, "write")}),
       declaration("row_sum", 2, one, {touched(rows, "read"), touched(all, "write")}, columns),
       declaration("gather", 2, one,
                   {touched(columns, "read"), touched({"*", 8, "v0"}, "read", "int64"),
                    touched(all, "write")}),
       declaration("copy_bytes", 1, json::array(),
                   {touched("v0", "read"), touched("v0", "write")})});
}

void declare(Builder* builder, const json& kernels) {
  builder->plan["format"] = {1, 1};
  json& program = builder->program();
  for (Builder::Entry& entry : builder->entries) {
    if (entry.name.rfind("kernels/cpu/", 0) != 0) continue;
    entry.bytes += declarations(kernels);
    entry.shape = {entry.bytes.size()};
    builder->plan["entries"][entry.name] = hash(entry.bytes);
    for (json& library : program["libraries"]) {
      if (library["entry"] == entry.name) library["sha256"] = hash(entry.bytes);
    }
  }
  give_values(&program["steps"]);
  if (!program.contains("weights")) return;
  for (json& routine : program["weights"]["routines"]) give_values(&routine["steps"]);
}

Opened::Opened(const Builder& builder) : bytes_(builder.build()) {
  aot_status* status =
      aot_package_open_memory(bytes_.bytes().data, bytes_.bytes().size, nullptr, &package_);
  if (status != nullptr) {
    const aot_rt::Error error(aot_status_code(status), aot_status_message(status));
    aot_status_free(status);
    throw error;
  }
}

Opened::~Opened() { aot_package_free(package_); }

}  // namespace aot_test
