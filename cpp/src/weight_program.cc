#include "weight_program.h"

#include <map>
#include <string_view>
#include <utility>

#include "error.h"
#include "plan_fields.h"
#include "program.h"

namespace aot_rt {
namespace {

std::shared_ptr<Routine> parse_routine(const Field& field, const Plan& common,
                                       const Container& container, const Program& owner) {
  auto routine = std::make_shared<Routine>();
  Plan& plan = routine->plan;
  plan.model = common.model;
  plan.origins = common.origins;  // shared
  field.each("inputs", [&plan](const Field& f) { plan.inputs.push_back(parse_tensor(f, {})); });
  field.each("results", [&plan](const Field& f) { plan.outputs.push_back(parse_tensor(f, {})); });
  if (plan.outputs.size() != 1) field.wrong("must have one result");
  routine->body = parse_routine_body(field, plan, container, owner);
  for (const Buffer& buffer : routine->body.buffers) {
    // What the package has there is not what the weights are now.
    if (buffer.storage == Storage::kEntry) field.wrong("reads an entry of the package");
  }
  return routine;
}

bool same_shape(const std::vector<Expr>& shape, const std::vector<int64_t>& sizes) {
  if (shape.size() != sizes.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!shape[i].is_constant() || shape[i].constant() != sizes[i]) return false;
  }
  return true;
}

using Positions = std::map<std::string_view, size_t>;

Derived parse_derived(const Field& field, const Plan& common, const Positions& positions,
                      const Container& container, const Program& owner) {
  Derived result;
  const Field entry = field.at("entry");
  const Field sources = field.at("sources");
  const Field id = field.at("routine");
  result.entry = parse_entry(entry, container);
  result.routine = id.id(owner.routines.size());
  const Plan& plan = owner.routines[static_cast<size_t>(result.routine)]->plan;
  if (sources.size() != plan.inputs.size()) sources.wrong("are not as many as the routine takes");
  for (size_t i = 0; i < sources.size(); ++i) {
    const Field name = sources.at(i);
    const auto found = positions.find(name.text());
    if (found == positions.end()) name.wrong("is no weight of the plan");
    const WeightSpec& spec = common.weights[found->second];
    if (spec.dtype != plan.inputs[i].dtype || !same_shape(plan.inputs[i].shape, spec.shape)) {
      name.wrong("is not what the routine takes");
    }
    result.sources.push_back(static_cast<int32_t>(found->second));
  }
  const TensorSpec& made = plan.outputs[0];
  if (result.entry->dtype != made.dtype->safetensors ||
      !same_shape(made.shape, result.entry->shape)) {
    entry.wrong("is not what the routine gives");
  }
  return result;
}

}  // namespace

void parse_weight_program(const Field& field, const Plan& common, const Container& container,
                          Program* program) {
  field.each("routines", [&](const Field& f) {
    program->routines.push_back(parse_routine(f, common, container, *program));
  });
  Positions positions;
  for (size_t i = 0; i < common.weights.size(); ++i) positions[common.weights[i].name] = i;
  field.each("derived", [&](const Field& f) {
    program->derived.push_back(parse_derived(f, common, positions, container, *program));
  });
}

}  // namespace aot_rt
