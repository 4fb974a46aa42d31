#include "hostile/mutate.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "safetensors.h"
#include "sha256.h"

namespace aot_hostile {
namespace {

using aot_test::Builder;
using aot_test::json;

std::string hash(const std::string& bytes) {
  return aot_rt::sha256_hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

bool is_code(const std::string& name) {
  return name.rfind("kernels/", 0) == 0 || name.rfind("operators/", 0) == 0;
}

// A value in the plan, with the key that leads to it.
struct Node {
  json* value;
  std::string key;  // of the nearest object around it
};

void collect(json* value, const std::string& key, std::vector<Node>* nodes) {
  nodes->push_back({value, key});
  if (value->is_object()) {
    for (auto& [name, member] : value->items()) {
      if (name == "sha256") continue;  // hashes are right
      collect(&member, name, nodes);
    }
  } else if (value->is_array()) {
    for (json& item : *value) collect(&item, key, nodes);
  }
}

// The parts that a runtime acts on; the programs most of the time.
std::vector<Node> nodes_of(json* plan, Random* random) {
  std::vector<Node> nodes;
  const char* keys[] = {"dims", "inputs", "outputs", "states", "checks", "weights", "format"};
  json* root = nullptr;
  if (pick(random, 4) == 0) {
    const char* key = keys[pick(random, 7)];
    if (plan->contains(key)) root = &(*plan)[key];
  }
  if (root == nullptr) {
    json& programs = (*plan)["programs"];
    root = &programs;
    const char* parts[] = {"buffers", "arena", "steps", "steps", "weights", "updates", "outputs"};
    const char* part = parts[pick(random, 7)];
    if (!programs.empty() && programs[0].contains(part) && pick(random, 8) != 0) {
      root = &programs[0][part];
    }
    // Most plans have a few large lists: one item of it, so that all kinds of keys are reached.
    if (root->is_array() && !root->empty() && pick(random, 4) != 0) {
      root = &(*root)[pick(random, root->size())];
    }
  }
  collect(root, "", &nodes);
  return nodes;
}

json number(const json& old, Random* random) {
  const int64_t value = old.is_number_integer() ? old.get<int64_t>() : 0;
  const auto wide = [](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  };
  switch (pick(random, 12)) {
    case 0:
      return wide(value, 1);
    case 1:
      return wide(value, -1);
    case 2:
      return static_cast<int64_t>(static_cast<uint64_t>(value) * 2);
    case 3:
      return value / 2;
    case 4:
      return 0;
    case 5:
      return -1;
    case 6:
      return wide(value, static_cast<int64_t>(4 << pick(random, 8)));
    case 7:
      return int64_t{1} << pick(random, 63);
    case 8:
      return wide(0, -value);
    case 9:
      return std::numeric_limits<int64_t>::max() - static_cast<int64_t>(pick(random, 3));
    default:
      return static_cast<int64_t>(pick(random, 64));
  }
}

json text(const json& old, const json& plan, Random* random) {
  static const char* const words[] = {
      "input", "output", "arena",   "state",  "entry",   "slice",    "float32", "int64", "bool",
      "int8",  "//",     "%",       "min",    "max",     "+",        "*",       "==",    "<",
      "<=",    "",       "float64", "kernel", "float16", "tensor[]", "tensor",  "none"};
  const json dims = plan.value("dims", json::array());
  if (dims.is_array() && !dims.empty() && pick(random, 3) == 0) {
    const json& name = dims[pick(random, dims.size())];
    if (name.is_object() && name.contains("name")) return name["name"];
  }
  const json entries = plan.value("entries", json::object());
  if (entries.is_object() && !entries.empty() && old.is_string() && pick(random, 3) == 0) {
    auto at = entries.begin();
    std::advance(at, static_cast<int64_t>(pick(random, entries.size())));
    return at.key();
  }
  return words[pick(random, 26)];
}

// An expression made of the old one.
json expression(const json& old, const json& plan, Random* random) {
  static const char* const operators[] = {"+", "*", "min", "max", "//", "%"};
  const json other = pick(random, 2) == 0 ? number(1, random) : text(old, plan, random);
  return json::array({operators[pick(random, 6)], old, other});
}

void change_list(json* list, Random* random) {
  if (list->empty()) {
    list->push_back(static_cast<int64_t>(pick(random, 4)));
    return;
  }
  const size_t at = pick(random, list->size());
  switch (pick(random, 4)) {
    case 0:
      list->erase(at);
      break;
    case 1:
      list->insert(list->begin() + static_cast<int64_t>(at), json((*list)[at]));
      break;
    case 2:
      std::swap((*list)[at], (*list)[pick(random, list->size())]);
      break;
    default:
      list->push_back(json((*list)[at]));
  }
}

void change_object(json* object, Random* random) {
  if (object->empty()) return;
  auto at = object->begin();
  std::advance(at, static_cast<int64_t>(pick(random, object->size())));
  const std::string key = at.key();
  if (key == "sha256") return;
  if (pick(random, 2) == 0) {
    object->erase(key);
    return;
  }
  auto other = object->begin();
  std::advance(other, static_cast<int64_t>(pick(random, object->size())));
  if (other.key() != "sha256") std::swap(*at, *other);
}

std::string change_plan(json* plan, Random* random) {
  const json before = *plan;
  std::vector<Node> nodes = nodes_of(plan, random);
  const Node& node = nodes[pick(random, nodes.size())];
  const std::string old = node.value->dump().substr(0, 60);
  const size_t kind = pick(random, 8);
  if (kind < 2) {
    // What another place has under the same key.
    std::vector<Node> all;
    json copy = before;
    collect(&copy, "", &all);
    std::vector<const json*> same;
    for (const Node& other : all) {
      if (other.key == node.key && other.value->type() == node.value->type()) {
        same.push_back(other.value);
      }
    }
    if (!same.empty()) *node.value = *same[pick(random, same.size())];
  } else if (kind == 2 && (node.value->is_number_integer() || node.value->is_string())) {
    *node.value = expression(*node.value, before, random);
  } else if (node.value->is_array()) {
    change_list(node.value, random);
  } else if (node.value->is_object()) {
    change_object(node.value, random);
  } else if (node.value->is_string()) {
    *node.value = text(*node.value, before, random);
  } else if (node.value->is_boolean()) {
    *node.value = !node.value->get<bool>();
  } else if (node.value->is_null()) {
    *node.value = static_cast<int64_t>(pick(random, 9));
  } else {
    *node.value = number(*node.value, random);
  }
  return node.key + ": " + old + " -> " + node.value->dump().substr(0, 60);
}

std::string change_entry(Builder* builder, Random* random) {
  Builder::Entry& entry = builder->entries[pick(random, builder->entries.size())];
  if (is_code(entry.name)) return "";
  switch (pick(random, 3)) {
    case 0:  // longer or shorter
      entry.bytes.resize(pick(random, 2) == 0 ? entry.bytes.size() / 2 : entry.bytes.size() * 2);
      entry.dtype = "U8";
      entry.shape = json::array({entry.bytes.size()});
      break;
    case 1:
      if (entry.shape.empty()) return "";
      entry.shape = json::array({entry.bytes.size()});
      entry.dtype = pick(random, 2) == 0 ? "I8" : "BOOL";
      break;
    default:
      if (entry.bytes.empty()) return "";
      for (int i = 0; i < 8; ++i) {
        entry.bytes[pick(random, entry.bytes.size())] = static_cast<char>(pick(random, 256));
      }
  }
  return "entry " + entry.name;
}

}  // namespace

size_t pick(Random* random, size_t count) { return (*random)() % count; }

Builder take_apart(const std::string& file) {
  const aot_test::AlignedBytes bytes(file);
  const auto container = aot_rt::Container::read(bytes.bytes());
  Builder builder;
  for (const aot_rt::Entry& entry : container.entries()) {
    const std::string content(reinterpret_cast<const char*>(entry.bytes.data), entry.bytes.size);
    if (entry.name == "plan") {
      builder.plan = json::parse(content);
    } else if (entry.name != "manifest" && entry.name.rfind("pad/", 0) != 0) {
      // Without a manifest the hashes are those of plan and header.
      builder.entries.push_back({entry.name, entry.dtype, entry.shape, content});
    }
  }
  if (builder.plan.is_null()) throw std::runtime_error("a package without a plan");
  return builder;
}

std::string change(Builder* builder, Random* random) {
  std::string done;
  for (size_t times = 1 + pick(random, 3); times > 0; --times) {
    const bool entry = pick(random, 24) == 0 && !builder->entries.empty();
    done += (done.empty() ? "" : "; ") +
            (entry ? change_entry(builder, random) : change_plan(&builder->plan, random));
  }
  return done;
}

std::string put_together(Builder* builder) {
  json& sums = builder->plan["entries"];
  if (sums.is_object()) {
    for (const Builder::Entry& entry : builder->entries) sums[entry.name] = hash(entry.bytes);
  }
  builder->metadata["plan_sha256"] = hash(builder->plan.dump());
  return builder->build();
}

}  // namespace aot_hostile
