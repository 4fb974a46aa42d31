#include "verify/lifetimes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "bound_sizes.h"
#include "error.h"

namespace aot_rt {
namespace {

// Counts events in the order of the steps.
class Timeline {
 public:
  explicit Timeline(const Program& program) : program_(program), lives_(program.buffers.size()) {
    slices_.resize(program.steps.size());
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& buffer = program.buffers[i];
      if (buffer.storage != Storage::kSlice) continue;
      slices_[static_cast<size_t>(buffer.loop)].push_back(static_cast<int32_t>(i));
    }
  }

  std::vector<Lifetime> take() {
    walk(0, static_cast<int32_t>(program_.steps.size()));
    ++event_;
    for (const int32_t output : program_.outputs) touch(output);
    for (const Update& update : program_.updates) touch(update.buffer);
    extend();
    return std::move(lives_);
  }

 private:
  void touch(int32_t id) {
    const Buffer* buffer = &program_.buffers[static_cast<size_t>(id)];
    while (buffer->storage == Storage::kSlice) {
      id = buffer->index;
      buffer = &program_.buffers[static_cast<size_t>(id)];
    }
    Lifetime& life = lives_[static_cast<size_t>(id)];
    if (life.first < 0) life.first = event_;
    life.last = event_;
  }

  void walk(int32_t begin, int32_t end) {
    for (int32_t at = begin; at < end;) {
      const auto self = static_cast<size_t>(at);
      const Step& step = program_.steps[self];
      const bool loop = step.kind == StepKind::kWhile || step.kind == StepKind::kRepeat;
      const int32_t first = ++event_;
      if (step.kind != StepKind::kWhile) touch_all(step.buffers);
      touch_all(slices_[self]);
      ++at;
      for (const int32_t count : step.parts) {
        walk(at, at + count);
        at += count;
        // The condition's result is read behind it, in each turn.
        if (step.kind == StepKind::kWhile) {
          ++event_;
          touch_all(step.buffers);
        }
      }
      if (!loop) continue;
      ++event_;
      touch_all(slices_[self]);
      loops_.emplace_back(first, event_);
    }
  }

  void touch_all(const std::vector<int32_t>& buffers) {
    for (const int32_t id : buffers) touch(id);
  }

  // Loops inside of others come before these in `loops_`. For each buffer the loops that its last
  // event is in are those that hold this event, the innermost first.
  void extend() {
    std::vector<int32_t> innermost(static_cast<size_t>(event_) + 1, -1);
    std::vector<int32_t> around(loops_.size(), -1);
    for (size_t i = loops_.size(); i-- > 0;) {  // from the outer to the inner ones
      around[i] = innermost[static_cast<size_t>(loops_[i].first)];
      std::fill(innermost.begin() + loops_[i].first, innermost.begin() + loops_[i].second + 1,
                static_cast<int32_t>(i));
    }
    for (Lifetime& life : lives_) {
      if (life.last < 0) continue;
      for (int32_t at = innermost[static_cast<size_t>(life.last)]; at >= 0;) {
        const auto& [begin, end] = loops_[static_cast<size_t>(at)];
        if (life.first <= begin) life.last = end;
        at = around[static_cast<size_t>(at)];
      }
    }
  }

  const Program& program_;
  std::vector<Lifetime> lives_;
  std::vector<std::vector<int32_t>> slices_;        // by loop
  std::vector<std::pair<int32_t, int32_t>> loops_;  // first and last event
  int32_t event_ = -1;
};

// An arena's temporaries in the order in which they begin and end: `begin` and `end` are called
// with positions in `Program::arena`, everything that begins at an event before what ends there.
template <typename Begin, typename End>
void sweep(const Program& program, const std::vector<Lifetime>& lives, Begin begin, End end) {
  struct Change {
    int32_t event;
    bool ends;
    int32_t slot;
  };
  std::vector<Change> changes;
  for (size_t i = 0; i < program.arena.size(); ++i) {
    const Lifetime& life = lives[static_cast<size_t>(program.arena[i].buffer)];
    if (life.first < 0) continue;
    changes.push_back({life.first, false, static_cast<int32_t>(i)});
    changes.push_back({life.last, true, static_cast<int32_t>(i)});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    if (a.event != b.event) return a.event < b.event;
    return a.ends != b.ends ? b.ends : a.slot < b.slot;
  });
  for (const Change& change : changes) change.ends ? end(change.slot) : begin(change.slot);
}

// Whether one slot lies above another; the time for all questions together is bounded.
class Order {
 public:
  explicit Order(const std::vector<ArenaSlot>& arena) : arena_(arena), seen_(arena.size(), -1) {
    size_t edges = 0;
    for (const ArenaSlot& slot : arena) edges += slot.above.size();
    budget_ = 1024 + 32 * (arena.size() + edges);
  }

  bool above(int32_t upper, int32_t lower) {
    ++question_;
    std::vector<int32_t> open = {upper};
    while (!open.empty()) {
      const int32_t at = open.back();
      open.pop_back();
      for (const int32_t below : arena_[static_cast<size_t>(at)].above) {
        if (below == lower) return true;
        if (budget_ == 0) return false;
        --budget_;
        // Slots lie above earlier ones only.
        if (below < lower || seen_[static_cast<size_t>(below)] == question_) continue;
        seen_[static_cast<size_t>(below)] = question_;
        open.push_back(below);
      }
    }
    return false;
  }

 private:
  const std::vector<ArenaSlot>& arena_;
  std::vector<int32_t> seen_;
  int32_t question_ = 0;
  size_t budget_ = 0;
};

}  // namespace

std::vector<Lifetime> lifetimes_of(const Program& program) { return Timeline(program).take(); }

bool arena_is_ordered(const Program& program) {
  const auto scope_of = [&program](int32_t slot) {
    return program.buffers[static_cast<size_t>(program.arena[static_cast<size_t>(slot)].buffer)]
        .scope;
  };
  Order order(program.arena);
  bool ordered = true;
  // Those alive in an arena are a chain, each above the one before: a new one has its place between
  // two of them.
  std::map<int32_t, std::map<int32_t, bool>> alive;  // by scope
  sweep(
      program, lifetimes_of(program),
      [&](int32_t slot) {
        std::map<int32_t, bool>& chain = alive[scope_of(slot)];
        const auto place = chain.emplace(slot, true).first;
        if (place != chain.begin()) ordered &= order.above(slot, std::prev(place)->first);
        const auto next = std::next(place);
        if (next != chain.end()) ordered &= order.above(next->first, slot);
      },
      [&](int32_t slot) { alive[scope_of(slot)].erase(slot); });
  return ordered;
}

void check_arena_places(const BoundSizes& sizes, int32_t scope) {
  const Program& program = sizes.program();
  std::map<int64_t, int32_t> alive;  // buffers by offset
  const auto placed = [&](int32_t id) {
    return program.buffers[static_cast<size_t>(id)].scope == scope && sizes.buffer_bytes(id) > 0;
  };
  const auto end_of = [&sizes](int32_t id) {
    return sizes.arena_offset(id) + sizes.buffer_bytes(id);
  };
  const auto begin = [&](int32_t slot) {
    const int32_t id = program.arena[static_cast<size_t>(slot)].buffer;
    const int64_t offset = sizes.arena_offset(id);
    if (!placed(id)) return;
    const auto [place, free] = alive.emplace(offset, id);
    int32_t other = free ? -1 : place->second;
    if (free && place != alive.begin() && end_of(std::prev(place)->second) > offset) {
      other = std::prev(place)->second;
    }
    const auto next = std::next(place);
    if (free && next != alive.end() && end_of(id) > next->first) other = next->second;
    if (other < 0) return;
    fail(AOT_CORRUPT_PACKAGE, program.unproved.where, ".arena: buffers '",
         program.buffers[static_cast<size_t>(id)].name, "' (", sizes.buffer_bytes(id), " bytes at ",
         offset, ") and '", program.buffers[static_cast<size_t>(other)].name, "' (",
         sizes.buffer_bytes(other), " bytes at ", sizes.arena_offset(other),
         ") are in use at one time and share memory");
  };
  const auto end = [&](int32_t slot) {
    const int32_t id = program.arena[static_cast<size_t>(slot)].buffer;
    if (placed(id)) alive.erase(sizes.arena_offset(id));
  };
  sweep(program, lifetimes_of(program), begin, end);
}

}  // namespace aot_rt
