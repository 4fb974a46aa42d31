#include "policy.h"

#include <algorithm>

#include "abi_struct.h"
#include "error.h"

namespace aot_rt {
namespace {

const char* item(const char* const* list, size_t i, const char* name) {
  if (list[i] == nullptr) fail(AOT_INVALID_ARGUMENT, "aot_policy: ", name, "[", i, "] is NULL");
  return list[i];
}

void require_list(const char* const* list, size_t count, const char* name) {
  if (count != 0 && list == nullptr) fail(AOT_INVALID_ARGUMENT, "aot_policy: ", name, " is NULL");
}

void check_allowed(const Policy& policy, const Entry& entry, const std::string& sha256) {
  if (policy.only_listed_code && policy.code.count(sha256) == 0) {
    fail(AOT_REFUSED, "the policy does not list the code '", entry.name, "', SHA-256 ", sha256);
  }
}

void check_kernels(const Policy& policy, const Program& program, const Entry& entry,
                   const std::string& sha256) {
  check_allowed(policy, entry, sha256);
  if (policy.proved && !program.declared) {
    fail(AOT_REFUSED, "the policy wants proofs, which the code '", entry.name,
         "' gives no ground for: it does not declare what it touches; package the model again");
  }
}

}  // namespace

Policy read_policy(const aot_policy* given) {
  Policy policy;
  if (given == nullptr) return policy;
  const aot_policy read = read_options(given, "aot_policy");
  require_list(read.keys, read.key_count, "keys");
  require_list(read.code, read.code_count, "code");
  for (size_t i = 0; i < read.key_count; ++i) {
    const PublicKey key = parse_key(item(read.keys, i, "keys"));
    if (std::find(policy.keys.begin(), policy.keys.end(), key) != policy.keys.end()) {
      fail(AOT_INVALID_ARGUMENT, "aot_policy: the key ", key_text(key), " is there twice");
    }
    policy.keys.push_back(key);
  }
  policy.signatures = read.signatures;
  if (policy.signatures == 0 && !policy.keys.empty()) policy.signatures = 1;
  if (policy.signatures > policy.keys.size()) {
    fail(AOT_INVALID_ARGUMENT, "aot_policy: ", policy.signatures, " of ", policy.keys.size(),
         " keys shall have signed");
  }
  policy.only_listed_code = read.code != nullptr;
  for (size_t i = 0; i < read.code_count; ++i) policy.code.insert(item(read.code, i, "code"));
  policy.operator_libraries = read.no_operator_libraries == 0;
  policy.proved = read.require_proved != 0;
  policy.check_weights = !policy.keys.empty() && read.trust_weights == 0;
  policy.limits = Limits::most(read_options(read.limits, "aot_limits"));
  return policy;
}

void check_signatures(const Policy& policy, const Container& container,
                      const std::vector<std::string>& libraries) {
  if (policy.signatures == 0) return;
  const std::vector<Signature> signatures = parse_signatures(container.signatures());
  if (signatures.empty() || container.manifest_sha256().empty()) {
    fail(AOT_REFUSED, "the policy wants a signed package, and this one is not");
  }
  const Crypto crypto(libraries);
  size_t found = 0;
  std::string details;
  for (const PublicKey& key : policy.keys) {
    bool signed_by = false;
    bool right = false;
    for (const Signature& signature : signatures) {
      if (signature.key != key) continue;
      signed_by = true;
      right = right || crypto.verify(signature, container.find("manifest")->bytes);
    }
    if (right) ++found;
    if (signed_by && !right) details += cat("; the signature of ", key_text(key), " is wrong");
  }
  if (found >= policy.signatures) return;
  fail(AOT_REFUSED, "the policy wants the signatures of ", policy.signatures, " of ",
       policy.keys.size(), " keys, and the package has ", found, " of them", details);
}

void check_code(const Policy& policy, const Plan& plan) {
  for (const Program& program : plan.programs) {
    for (const OperatorLibrary& library : program.operator_libraries) {
      if (!policy.operator_libraries) {
        fail(AOT_REFUSED, "the policy allows no operator libraries, and the package carries '",
             library.entry->name, "'");
      }
      check_allowed(policy, *library.entry, library.sha256);
    }
    for (const Library& library : program.libraries) {
      check_kernels(policy, program, *library.entry, library.sha256);
    }
    for (const Kernel& kernel : program.kernels) {
      if (kernel.entry == nullptr) continue;
      check_kernels(policy, program, *kernel.entry, kernel.sha256);
    }
  }
}

}  // namespace aot_rt
