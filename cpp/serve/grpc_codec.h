// Requests and answers of gRPC's messages.
#ifndef AOT_SERVE_GRPC_CODEC_H_
#define AOT_SERVE_GRPC_CODEC_H_

#include <memory>

#include "call.h"
#include "contract.h"
#include "open_inference.pb.h"

namespace serve {

// The inputs may lie in the message, which must outlive the call. Throws aot::Error.
InferRequest decode_message(const Contract& contract, const inference::ModelInferRequest& message);

// Outputs as bytes, whatever form the inputs had: both sides of the protocol know it.
void encode_message(const Contract& contract, const InferRequest& request, const Outcome& outcome,
                    inference::ModelInferResponse* message);

}  // namespace serve

#endif  // AOT_SERVE_GRPC_CODEC_H_
