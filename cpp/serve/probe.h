// What a model is asked before it serves: is a row's answer its own, and what do runs take?
#ifndef AOT_SERVE_PROBE_H_
#define AOT_SERVE_PROBE_H_

#include "aot/aot.hpp"
#include "contract.h"
#include "latency.h"

namespace serve {

// Runs batches of 1, 2, 4… rows up to `max_batch` made of the package's golden inputs (zeros, where
// it has none), and gives the least time of each. Throws aot::Error where a row's outputs depend on
// the rows beside it. For a contract that can_batch.
Latency probe_batches(const aot::Package& package, const Contract& contract, aot::Session& session,
                      int64_t max_batch);

// Loads kernels and makes memory for the golden inputs' sizes (else the smallest), before the first
// request wants them.
void warm_up(const aot::Package& package, const Contract& contract, aot::Session& session);

}  // namespace serve

#endif  // AOT_SERVE_PROBE_H_
