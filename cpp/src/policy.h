// What a caller allows of a package: checked before anything of it is mapped executable.
#ifndef AOT_SRC_POLICY_H_
#define AOT_SRC_POLICY_H_

#include <set>
#include <string>
#include <vector>

#include "aot/abi.h"
#include "plan.h"
#include "run_control.h"
#include "safetensors.h"
#include "signature.h"

namespace aot_rt {

// aot_policy, in this library's own memory. By default everything is allowed.
struct Policy {
  std::vector<PublicKey> keys;
  size_t signatures = 0;  // how many of the keys must have signed
  bool only_listed_code = false;
  std::set<std::string> code;  // digests of code, where only that is allowed
  bool operator_libraries = true;
  bool proved = false;
  bool check_weights = false;        // before they are first used
  Limits limits = Limits::most({});  // of each of its sessions
};

// Throws INVALID_ARGUMENT. NULL: the default.
Policy read_policy(const aot_policy* given);

// Whether enough of the policy's keys have signed the package, whose manifest is checked by then.
// `libraries`: where the cryptography is. Throws REFUSED, or CORRUPT_PACKAGE for signatures that
// are no such thing.
void check_signatures(const Policy& policy, const Container& container,
                      const std::vector<std::string>& libraries = Crypto::usual_libraries());

// Whether all code that the plan's programs can run is allowed. Throws REFUSED.
void check_code(const Policy& policy, const Plan& plan);

}  // namespace aot_rt

#endif  // AOT_SRC_POLICY_H_
