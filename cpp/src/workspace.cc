#include "workspace.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "error.h"

namespace aot_rt {

size_t Workspace::bytes() const {
  size_t total = scratch.size();
  for (const Block& arena : arenas) total += arena.size();
  return total;
}

std::unique_ptr<Workspace> WorkspacePool::take(const Workspace* wanted) {
  std::unique_ptr<Workspace> taken = take_idle(wanted);
  if (taken == nullptr) {
    taken = std::make_unique<Workspace>();
    taken->arenas.resize(scopes_);
  }
  return taken;
}

std::unique_ptr<Workspace> WorkspacePool::take_idle(const Workspace* wanted) {
  if (lock_.lost()) return nullptr;
  const std::lock_guard<Lock> lock(lock_);
  if (free_.empty()) {
    free_.reserve(free_.capacity() + 1);  // so that giving it back needs no memory
    return nullptr;
  }
  const auto same = [wanted](const auto& workspace) { return workspace.get() == wanted; };
  const auto found = std::find_if(free_.begin(), free_.end(), same);
  if (found != free_.end()) found->swap(free_.back());
  std::unique_ptr<Workspace> taken = std::move(free_.back());
  free_.pop_back();
  return taken;
}

void WorkspacePool::give_back(std::unique_ptr<Workspace> workspace) noexcept {
  if (lock_.lost()) return;  // freed
  const std::lock_guard<Lock> lock(lock_);
  free_.push_back(std::move(workspace));
}

size_t WorkspacePool::trim() {
  std::vector<std::unique_ptr<Workspace>> dropped;  // freed without the lock
  {
    const std::lock_guard<Lock> lock(lock_);
    dropped.reserve(free_.size());
    for (std::unique_ptr<Workspace>& workspace : free_) dropped.push_back(std::move(workspace));
    free_.clear();
  }
  size_t bytes = 0;
  for (const auto& workspace : dropped) bytes += workspace->bytes();
  return bytes;
}

size_t WorkspacePool::idle_bytes() {
  const std::lock_guard<Lock> lock(lock_);
  size_t bytes = 0;
  for (const auto& workspace : free_) bytes += workspace->bytes();
  return bytes;
}

}  // namespace aot_rt
