#include "package.h"

#include <algorithm>
#include <set>
#include <utility>

#include "error.h"
#include "perf_map.h"

namespace aot_rt {
namespace {

// How the entries of carried files begin.
const std::string kFiles = "files/";

// A plan is worth reading only when the package may be used at all.
Plan allowed_plan(const Policy& policy, const Container& container) {
  check_signatures(policy, container);
  Plan plan = Plan::parse(container);
  check_code(policy, plan);
  return plan;
}

}  // namespace

Package::Package(PackageFiles files, Log log, const Policy& policy)
    : files_(std::move(files.files)),
      log_(log),
      container_(std::move(files.container)),
      plan_(allowed_plan(policy, container_)),
      integrity_(container_, files.sealed, plan_),
      check_weights_(policy.check_weights),
      limits_(policy.limits),
      values_(plan_.weights.size()) {
  describe();
  log_(AOT_LOG_INFO,
       cat("package '", plan_.model, "' for ", plan_.list_programs(), ", ", files.bytes, " bytes"));
  if (!plan_.declared) {
    log_(AOT_LOG_WARNING,
         cat("package '", plan_.model,
             "' does not declare what its kernels touch: its launches are trusted, not proved; "
             "package it again with a newer aot-package"));
  }
}

Bytes Package::plan_text() const { return container_.find("plan")->bytes; }

const Entry& Package::file(const std::string& name) {
  const Entry* entry = container_.find(kFiles + name);
  if (entry == nullptr) {
    std::string names;
    for (const Entry& other : container_.entries()) {
      if (other.name.compare(0, kFiles.size(), kFiles) != 0) continue;
      names += cat(names.empty() ? "'" : ", '", other.name.substr(kFiles.size()), "'");
    }
    fail(AOT_NOT_FOUND, "package '", plan_.model, "' carries no file '", name, "'; it carries ",
         names.empty() ? "none" : names);
  }
  integrity_.check({entry});
  return *entry;
}

// Those that sessions of a program read, and the first values of states.
void Package::check_weights(const Program& program) {
  if (!check_weights_) return;
  std::vector<const Entry*> entries;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.storage == Storage::kEntry) entries.push_back(buffer.entry);
  }
  for (const State& state : plan_.states) {
    if (state.entry != nullptr) entries.push_back(state.entry);
  }
  integrity_.check(entries);
}

std::shared_ptr<const KernelLibrary> Package::library(const Program& program,
                                                      std::string_view isa) {
  const Library& chosen = choose_library(program, isa);
  const std::lock_guard<Lock> lock(mutex_);
  std::shared_ptr<const KernelLibrary>& slot = libraries_[chosen.entry->name];
  if (slot == nullptr) {
    slot = std::make_shared<const KernelLibrary>(chosen, program);
    log_(AOT_LOG_INFO, cat("kernels of ", chosen.isa, ", ", chosen.entry->bytes.size, " bytes"));
  }
  return slot;
}

void Package::write_perf_map() {
  std::vector<NamedCode> code;
  {
    const std::lock_guard<Lock> lock(mutex_);
    for (const Program& program : plan_.programs) {
      std::vector<std::string> names;
      for (const Kernel& kernel : program.kernels) names.push_back(kernel.name);
      for (size_t i = program.steps.size(); i-- > 0;) {  // the first step that has it says where
        const Step& step = program.steps[i];
        if (step.kind != StepKind::kLaunch || step.origin < 0) continue;
        names[static_cast<size_t>(step.kernel)] =
            cat(program.kernel_of(step).name, " (", plan_.origin_of(step), ")");
      }
      for (const Library& library : program.libraries) {
        const auto loaded = libraries_.find(library.entry->name);
        if (loaded == libraries_.end() || loaded->second == nullptr) continue;
        for (size_t id = 0; id < names.size(); ++id) {
          const auto function = loaded->second->kernel(static_cast<int32_t>(id));
          code.push_back({reinterpret_cast<uintptr_t>(function), names[id]});
        }
      }
    }
  }
  append_perf_map(std::move(code));
}

std::vector<OperatorPtr> Package::operators(const Plan& plan, const Program& program) {
  std::vector<OperatorPtr> found;
  for (const Step& step : program.steps) {
    if (step.kind != StepKind::kCall) continue;
    const std::string& name = program.call_of(step).name;
    found.push_back(find_operator(program, name));
    if (found.back() != nullptr) continue;
    const std::string origin = plan.origin_of(step);
    throw Error(
        AOT_NOT_FOUND,
        cat("the model calls the custom operator '", name, "'", origin.empty() ? "" : " at ",
            origin, ", which nobody has given for ", program.device, other_devices(program, name),
            ": register it for this device before you load the package "
            "(aot_register_operator_for; in Python aot_runtime.register_operator), or "
            "package with --operator-library and the shared library that holds it"),
        origin);
  }
  return found;
}

// " (there is code for cpu)", or nothing.
std::string Package::other_devices(const Program& program, const std::string& name) {
  std::vector<const Operators*> carried;
  carried.reserve(program.operator_libraries.size());
  const std::lock_guard<Lock> lock(mutex_);
  for (const OperatorLibrary& library : program.operator_libraries) {
    carried.push_back(&carried_[library.entry->name]);
  }
  std::string list;
  for (const std::string& device : devices_of(name, carried)) {
    list += list.empty() ? device : ", " + device;
  }
  return list.empty() ? "" : cat(" (there is code for ", list, ")");
}

OperatorPtr Package::find_operator(const Program& program, const std::string& name) {
  const OperatorKey key{program.device, name};
  const std::lock_guard<Lock> lock(mutex_);
  for (const OperatorLibrary& library : program.operator_libraries) {
    const std::string& entry = library.entry->name;
    if (carried_.count(entry) == 0) {
      carried_.emplace(entry, load_operators(*library.entry, library.sha256));
      log_(AOT_LOG_INFO, cat("operators of ", entry));
    }
    const Operators& operators = carried_[entry];
    const auto found = operators.find(key);
    if (found != operators.end()) return found->second;
  }
  return registered_operator(key);
}

std::shared_ptr<WeightPlace> Package::weight_place(
    const std::string& key, const std::function<std::unique_ptr<WeightDevice>()>& make) {
  PlaceSlot* slot = nullptr;
  {
    const std::lock_guard<Lock> lock(mutex_);
    std::unique_ptr<PlaceSlot>& known = places_[key];
    if (known == nullptr) known = std::make_unique<PlaceSlot>();
    slot = known.get();
  }
  const std::lock_guard<Lock> lock(slot->mutex);
  std::shared_ptr<WeightPlace> place = slot->place.lock();
  if (place != nullptr) return place;
  place = std::make_shared<WeightPlace>();
  place->device = make();
  check_weights(place->device->program());
  place->workspaces = std::make_shared<WorkspacePool>(place->device->program().scopes.size());
  Placement placement = place->device->package_weights();
  const std::lock_guard<Lock> unchanged(replacing_);
  if (weights_generation() > 1) {
    Changed changed;
    for (const WeightValue& value : values_) {
      changed.push_back(value.state != WeightValue::State::kPackaged);
    }
    placement = place_changes(*place->device, plan_, container_, placement, values_, changed);
    slot->kept = place;
  }
  place->placement = std::make_shared<const Placement>(std::move(placement));
  slot->place = place;
  return place;
}

std::shared_ptr<const Placement> Package::placement(const WeightPlace& place,
                                                    uint64_t* generation) const {
  const std::lock_guard<Lock> lock(placement_mutex_);
  *generation = generation_.load();
  return place.placement;
}

void Package::replace_weights(const std::vector<WeightUpdate>& updates,
                              const ReplaceOptions& options) {
  if (plan_.weights.empty()) {
    fail(AOT_UNSUPPORTED, "the weights of package '", plan_.model,
         "' cannot be replaced: package with --swappable");
  }
  if (check_weights_) {
    std::vector<const Entry*> entries;  // which what is derived may be computed from
    for (const WeightSpec& weight : plan_.weights) {
      if (weight.entry != nullptr) entries.push_back(weight.entry);
    }
    integrity_.check(entries);
  }
  const std::lock_guard<Lock> alone(replacing_);
  Replacement made = apply_updates(plan_, updates, values_, options);
  struct Next {
    PlaceSlot* slot;
    std::shared_ptr<WeightPlace> place;
    std::shared_ptr<const Placement> placement;
  };
  std::vector<Next> next;
  std::set<const Program*> placed;
  for (PlaceSlot* slot : place_slots()) {
    std::shared_ptr<WeightPlace> place = slot->place.lock();
    if (place == nullptr) continue;
    placed.insert(&place->device->program());
    const Placement before = options.restart ? place->device->package_weights() : *place->placement;
    auto placement = std::make_shared<const Placement>(
        place_changes(*place->device, plan_, container_, before, made.values, made.changed));
    next.push_back({slot, std::move(place), std::move(placement)});
  }
  // Values whose originals the package does not have are kept only for programs still to start.
  const bool all_placed = placed.size() == plan_.programs.size();
  for (size_t id = 0; id < made.values.size(); ++id) {
    if (all_placed && made.changed[id] && plan_.weights[id].entry == nullptr) {
      made.values[id] = {WeightValue::State::kGone, nullptr};
    }
  }
  values_.swap(made.values);
  {
    const std::lock_guard<Lock> lock(placement_mutex_);
    for (Next& item : next) {
      item.place->placement.swap(item.placement);  // the old one is freed without the lock
      item.slot->kept = item.place;
    }
    ++generation_;
  }
  next.clear();
  const std::lock_guard<Lock> lock(users_mutex_);
  for (WeightUser* user : users_) user->drop_old_weights();
}

std::vector<Package::PlaceSlot*> Package::place_slots() {
  const std::lock_guard<Lock> lock(mutex_);
  std::vector<PlaceSlot*> slots;
  for (const auto& [key, slot] : places_) slots.push_back(slot.get());
  return slots;  // they stay as long as the package
}

void Package::add_user(WeightUser* user) {
  const std::lock_guard<Lock> lock(users_mutex_);
  users_.push_back(user);
}

void Package::remove_user(WeightUser* user) {
  const std::lock_guard<Lock> lock(users_mutex_);
  users_.erase(std::find(users_.begin(), users_.end(), user));
}

aot_dim_info Package::describe(const Expr& size, const std::vector<Range>& ranges) {
  std::vector<std::string> names;
  for (const Dim& dim : plan_.dims) names.push_back(dim.label);
  labels_.push_back(std::make_unique<std::string>(size.text(names)));
  const Range range = size.range(ranges);
  aot_dim_info info{};
  info.size = size.is_constant() ? size.constant() : -1;
  info.min = std::max<int64_t>(range.min, 0);
  info.max = range.max == kUnbounded ? -1 : range.max;
  info.multiple_of = 1;
  info.label = labels_.back()->c_str();
  for (const Dim& dim : plan_.dims) {
    if (*labels_.back() == dim.label) info.multiple_of = dim.multiple_of;
  }
  return info;
}

aot_tensor_info Package::describe(const TensorSpec& spec, const std::vector<Range>& ranges) {
  dims_.push_back(std::make_unique<std::vector<aot_dim_info>>());
  for (const Expr& size : spec.shape) dims_.back()->push_back(describe(size, ranges));
  return aot_tensor_info{spec.name.c_str(),      spec.dtype->name,
                         to_dlpack(*spec.dtype), static_cast<int32_t>(spec.shape.size()),
                         dims_.back()->data(),   spec.changed ? 1 : 0};
}

void Package::describe() {
  std::vector<Range> ranges;
  for (const Dim& dim : plan_.dims) ranges.push_back(dim.range);
  for (const TensorSpec& spec : plan_.inputs) inputs_.push_back(describe(spec, ranges));
  for (const TensorSpec& spec : plan_.outputs) outputs_.push_back(describe(spec, ranges));
  for (const State& state : plan_.states) states_.push_back(describe(state.spec, ranges));
  for (const Entry& entry : container_.entries()) {
    entries_.push_back(aot_entry_info{entry.name.c_str(), entry.dtype.c_str(),
                                      static_cast<int32_t>(entry.shape.size()), entry.shape.data(),
                                      entry.bytes.data, entry.bytes.size});
  }
}

}  // namespace aot_rt
