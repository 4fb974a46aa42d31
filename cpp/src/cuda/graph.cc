#include "cuda/graph.h"

#include <algorithm>

#include "error.h"

namespace aot_rt::cuda {
namespace {

KernelNodeParams node_params(const Launch& launch) {
  KernelNodeParams params{};
  params.function = launch.function;
  params.grid_x = launch.grid[0];
  params.grid_y = launch.grid[1];
  params.grid_z = launch.grid[2];
  params.block_x = launch.threads;
  params.block_y = 1;
  params.block_z = 1;
  params.shared_bytes = launch.shared;
  params.parameters = launch.parameters;
  return params;
}

}  // namespace

Graph::Graph(const Device& device, LaunchRange launches)
    : driver_(device.driver()),
      graph_(nullptr, Destroy{&driver_, forks()}),
      executable_(nullptr, Destroy{&driver_, forks()}) {
  nodes_.reserve(launches.count);
  CUgraph graph = nullptr;
  driver_.graph_create(&graph, 0);
  graph_.reset(graph);
  for (const Launch& launch : launches) add(launch);
  CUgraphExec executable = nullptr;
  driver_.graph_instantiate(&executable, graph, 0);
  executable_.reset(executable);
}

// A chain, as the arena's slots are reused in this order. Kernels that wait by themselves start
// while the one before them still runs. Each of those ends after the one before it, so that a chain
// of them is one of whole runs too.
void Graph::add(const Launch& launch) {
  if (launch.is_empty()) {
    nodes_.push_back(nullptr);
    return;
  }
  const KernelNodeParams params = node_params(launch);
  const auto last = std::find_if(nodes_.rbegin(), nodes_.rend(),
                                 [](const CUgraphNode& node) { return node != nullptr; });
  const CUgraphNode* before = last == nodes_.rend() ? nullptr : &*last;
  const bool early = before != nullptr && launch.waits && driver_.has_early_launches();
  CUgraphNode node = nullptr;
  driver_.graph_add_kernel_node(&node, graph_.get(), before, before != nullptr && !early ? 1 : 0,
                                &params);
  if (early) {
    const GraphEdge edge{kPortProgrammatic, 0, kEdgeProgrammatic, {}};
    driver_.graph_add_dependencies(graph_.get(), before, &node, &edge, 1);
  }
  nodes_.push_back(node);
}

void Graph::Destroy::operator()(CUgraph graph) const noexcept {
  if (forks == aot_rt::forks()) driver->graph_destroy.raw(graph);
}

void Graph::Destroy::operator()(CUgraphExec executable) const noexcept {
  if (forks == aot_rt::forks()) driver->graph_exec_destroy.raw(executable);
}

void Graph::update(LaunchRange launches) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Launch& launch = launches.first[i];
    if (!launch.changed) continue;
    launch.changed = false;
    if (nodes_[i] == nullptr) continue;
    const KernelNodeParams params = node_params(launch);
    driver_.graph_exec_set_kernel(executable_.get(), nodes_[i], &params);
  }
}

}  // namespace aot_rt::cuda
