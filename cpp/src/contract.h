// The input contract: what the plan promises kernels about the caller's tensors.
#ifndef AOT_SRC_CONTRACT_H_
#define AOT_SRC_CONTRACT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bound_sizes.h"
#include "plan.h"

namespace aot_rt {

// Whether the memory is the host's, which every session reads.
bool on_host(const DLTensor& tensor);

// The quick check of every run: whether the inputs are exactly what `bound` was made for, on the
// host or on `device`.
bool inputs_match(const Plan& plan, const BoundSizes& bound, const DLTensor* const* inputs,
                  size_t count, DLDevice device = {kDLCPU, 0});

// The full check: count, dtype, device, rank, sizes, ranges, multiples. Gives the dims' values.
// Throws INVALID_ARGUMENT or SHAPE_MISMATCH, which names the input and what was allowed.
std::vector<int64_t> bind_dims(const Plan& plan, const DLTensor* const* inputs, size_t count,
                               DLDevice device = {kDLCPU, 0});

// "input 'x' (number 0)", "output 'y' (number 0)"
std::string input_name(const Plan& plan, size_t index);
std::string output_name(const Plan& plan, size_t index);

// Throws INVALID_ARGUMENT or SHAPE_MISMATCH if the caller's memory for an output is not of its
// dtype and sizes, on the host or on `device`.
void check_output(const Plan& plan, size_t index, const DLTensor& tensor, const BoundTensor& bound,
                  DLDevice device);

// Whether an input's strides are the plan's.
bool strides_match(const DLTensor& tensor, const BoundTensor& bound);

// Whether an input can be read where it is: aligned elements in the plan's strides.
bool readable_in_place(const DLTensor& tensor, const BoundTensor& bound, const DType& dtype);

// Throws INVALID_ARGUMENT if an input that the model changes has one element in two places.
void check_writable(const Plan& plan, size_t index, const DLTensor& tensor);

// Writes a value in the plan's layout into the caller's memory on the host.
void write_tensor(const DLTensor& tensor, const BoundTensor& bound, const DType& dtype,
                  const void* value);

// The strides of a tensor in elements, also where it leaves them out.
std::vector<int64_t> strides_of(const DLTensor& tensor);

}  // namespace aot_rt

#endif  // AOT_SRC_CONTRACT_H_
