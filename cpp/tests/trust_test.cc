// What is executed is what was verified: every byte has its digest, and policies are kept.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "aot/abi.h"
#include "aot/aot.hpp"
#include "check.h"
#include "package.h"
#include "package_builder.h"
#include "policy.h"
#include "sha256.h"
#include "trust_package.h"

namespace {

using aot_test::Builder;
using aot_test::json;
using aot_test::Sealed;
using aot_test::Signer;

// What a test does with an open package.
using Use = std::function<void(aot_rt::Package&)>;

void open(const std::string& file, const Use& use = nullptr, const aot_rt::Policy& policy = {}) {
  const aot_test::AlignedBytes bytes(file);
  aot_rt::Package package(aot_rt::borrow_files(bytes.bytes(), ""), {}, policy);
  if (use) use(package);
}

void load_code(aot_rt::Package& package) {
  package.library(package.plan().programs.at(0), "x86-64-v2");
}

void verify(aot_rt::Package& package) { package.verify(2); }

bool is_refused(const std::string& file, const Use& use) {
  try {
    open(file, use);
    return false;
  } catch (const aot_rt::Error&) {
    return true;
  }
}

// The thread sanitizer finds the same in each of the openings, twenty times as slowly: of the bytes
// it tries one in so many, and other builds all.
#ifdef __SANITIZE_THREAD__
constexpr size_t kApart = 61;
#else
constexpr size_t kApart = 1;
#endif

// Whether each changed byte of file[begin, end) is noticed; the positions of others are reported.
void check_all_noticed(const std::string& file, size_t begin, size_t end, size_t step,
                       const Use& use) {
  size_t missed = 0;
  for (size_t at = begin; at < end; at += step * kApart) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    if (is_refused(changed, use)) continue;
    if (++missed < 5) std::fprintf(stderr, "byte %zu changed, and nobody noticed\n", at);
  }
  CHECK_EQ(missed, size_t{0});
}

json wrong_signature(const Signer& signer, const std::string& manifest) {
  json row = signer.sign(manifest);
  std::string text = row["signature"];
  text[5] = text[5] == '0' ? '1' : '0';
  row["signature"] = text;
  return row;
}

// A package of a few pages whose largest entry has several blocks, signed where that can be.
Sealed wide_package() {
  Builder builder = aot_test::small_package();
  builder.add_floats("weights/large", std::vector<float>(3000, 1.5f));
  Sealed sealed = aot_test::seal(builder, 4096);
  if (Signer::available()) {
    sealed.add_signatures(json::array({Signer(1).sign(sealed.manifest_text())}));
  }
  return sealed;
}

TEST(a_good_package) {
  const Sealed sealed = wide_package();
  open(sealed.file(), [](aot_rt::Package& package) {
    load_code(package);
    package.verify();
    package.verify(3);
  });
}

TEST(changed_bytes_of_header_plan_and_manifest) {
  const Sealed sealed = wide_package();
  const size_t data = sealed.header.size();
  const size_t plan_end = sealed.rows["plan"]["data_offsets"][1].get<size_t>();
  check_all_noticed(sealed.file(), 0, data + plan_end, 1, nullptr);
  const size_t manifest = data + sealed.manifest_at;
  check_all_noticed(sealed.file(), manifest, manifest + sealed.manifest_size, 1, nullptr);
}

TEST(changed_bytes_of_code) {
  const Sealed sealed = wide_package();
  const auto& row = sealed.rows["kernels/cpu/x86-64-v2"]["data_offsets"];
  const size_t data = sealed.header.size();
  check_all_noticed(sealed.file(), data + row[0].get<size_t>(), data + row[1].get<size_t>(), 97,
                    load_code);
}

TEST(changed_bytes_of_the_whole_file) {
  const std::string file = wide_package().file();
  check_all_noticed(file, 0, file.size(), 3, verify);
  check_all_noticed(file, file.size() - 128, file.size(), 1, verify);
}

TEST(a_byte_more_or_less) {
  const std::string file = wide_package().file();
  CHECK(is_refused(file + '\0', nullptr));
  CHECK(is_refused(file.substr(0, file.size() - 1), nullptr));
}

TEST(a_changed_block_is_named) {
  const Sealed sealed = wide_package();
  std::string file = sealed.file();
  const size_t at = sealed.rows["weights/large"]["data_offsets"][0].get<size_t>();
  file[sealed.header.size() + at + 4096 + 7] ^= 1;
  open(file);
  CHECK_FAILS(open(file, verify), AOT_CORRUPT_PACKAGE, "checksum of 'weights/large', block 1, is");
}

TEST(fillers_are_zero) {
  const Sealed sealed = wide_package();
  std::string file = sealed.file();
  const size_t at = sealed.rows["pad/0"]["data_offsets"][0].get<size_t>();
  file[sealed.header.size() + at] = 1;
  CHECK_FAILS(open(file, verify), AOT_CORRUPT_PACKAGE, "filler entry 'pad/0' is not zero");
}

// A package whose manifest was edited without a change of its size, with its checksum made right.
std::string with_manifest(const std::string& before, const std::string& after) {
  Sealed sealed = wide_package();
  std::string text = sealed.manifest_text();
  CHECK_EQ(before.size(), after.size());
  text.replace(text.find(before), before.size(), after);
  sealed.data.replace(sealed.manifest_at, text.size(), text);
  sealed.metadata.erase("signatures");
  sealed.metadata.erase("signatures_sha256");
  sealed.metadata["manifest_sha256"] =
      aot_rt::sha256_hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  sealed.write_header();
  return sealed.file();
}

TEST(manifests_that_contradict_the_header) {
  const auto refused = [](const char* before, const char* after) {
    CHECK_FAILS(open(with_manifest(before, after)), AOT_CORRUPT_PACKAGE,
                "the header is not the one that the manifest describes");
  };
  refused("1.1", "1.2");
  refused("plan_sha256\":\"", "plan_sha256\":\'");
  refused("{\"format", " {\"forma");
}

TEST(manifests_that_are_wrong) {
  const auto refused = [](const char* before, const char* after, const char* part) {
    const std::string file = with_manifest(before, after);
    open(file);  // only who reads the digests sees it
    CHECK_FAILS(open(file, verify), AOT_CORRUPT_PACKAGE, part);
  };
  refused("\"block_bytes\":4096", "\"block_bytes\":1234", "block_bytes");
  refused("\"block_bytes\":4096", "\"block_bytes\":9000", "blocks, its bytes are");
  refused("\"dtype\":\"F32\"", "\"dtype\":\"F37\"", "is an unknown dtype");
  refused("\"dtype\":\"F32\"", "\"dtype\":\"I32\"", "another type or shape");
  refused("weights/bias", "weights/bais", "'weights/bais', which is not there");
  refused("\"blocks\":[\"", "\"blocks\":[\'", "");
}

TEST(entries_that_the_manifest_leaves_out) {
  Builder builder = aot_test::small_package();
  Sealed sealed = aot_test::seal(builder);
  std::string text = sealed.manifest_text();
  const size_t last = text.rfind(",{\"name\"");
  text = text.substr(0, last) + "]}" + std::string(text.size() - last - 2, ' ');
  sealed.data.replace(sealed.manifest_at, text.size(), text);
  sealed.metadata["manifest_sha256"] =
      aot_rt::sha256_hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  sealed.write_header();
  CHECK_FAILS(open(sealed.file(), verify), AOT_CORRUPT_PACKAGE, "weights/factor'");
}

TEST(a_manifest_that_is_missing) {
  Sealed sealed = aot_test::seal(aot_test::small_package());
  sealed.metadata.erase("manifest_sha256");
  sealed.write_header();
  CHECK_FAILS(open(sealed.file()), AOT_CORRUPT_PACKAGE, "of format 1.1 without a manifest");
  Builder old = aot_test::small_package();
  old.metadata["manifest_sha256"] = std::string(64, '0');
  CHECK_FAILS(open(old.build()), AOT_CORRUPT_PACKAGE, "the package has no manifest");
  // Of format 1.0, which has none.
  open(aot_test::small_package().build(), verify);
}

TEST(plan_and_manifest_agree) {
  Builder builder = aot_test::small_package();
  builder.plan["entries"]["weights/bias"] = std::string(64, '0');
  CHECK_FAILS(open(aot_test::seal(builder).file(), verify), AOT_CORRUPT_PACKAGE,
              "the plan has another checksum for 'weights/bias' than the manifest");
}

// ---------------------------------------------------------------- through the C interface

class File {
 public:
  explicit File(const std::string& bytes) {
    CHECK(::mkdtemp(folder_.data()) != nullptr);
    path_ = folder_.data() + std::string("/p.pkg");
    write(bytes);
  }
  ~File() {
    ::unlink(path_.c_str());
    ::rmdir(folder_.data());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // In place, as one must not.
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::in | std::ios::out | std::ios::trunc)
        << bytes;
  }
  void change(size_t at) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }
  const std::string& path() const { return path_; }

 private:
  std::array<char, 32> folder_{"/tmp/aot_trust_XXXXXX"};
  std::string path_;
};

aot::Package open_file(const File& file, const aot::PackageOptions& options = {}) {
  auto opened = aot::Package::open(file.path(), options);
  if (!opened.ok()) throw aot_rt::Error(opened.error().code(), opened.error().what());
  return std::move(opened).value();
}

void make_session(aot::Package& package) {
  const auto session = aot::Session::create(package);
  if (!session.ok()) throw aot_rt::Error(session.error().code(), session.error().what());
}

TEST(lazy_finds_a_changed_weight_before_it_is_used) {
  const Sealed sealed = aot_test::seal(aot_test::small_package());
  const size_t at = sealed.rows["weights/bias"]["data_offsets"][0].get<size_t>();
  const File file(sealed.file());
  file.change(sealed.header.size() + at + 3);
  aot::PackageOptions options;
  aot::Package unchecked = open_file(file, options);
  make_session(unchecked);
  options.verify = AOT_VERIFY_LAZY;
  aot::Package lazy = open_file(file, options);
  CHECK_FAILS(make_session(lazy), AOT_CORRUPT_PACKAGE, "checksum of 'weights/bias' is");
  CHECK_FAILS(make_session(lazy), AOT_CORRUPT_PACKAGE, "checksum of 'weights/bias' is");
  options.verify = true;
  CHECK_FAILS(open_file(file, options), AOT_CORRUPT_PACKAGE, "checksum of 'weights/bias' is");
  options.verify = static_cast<aot_verify>(3);
  CHECK_FAILS(open_file(file, options), AOT_INVALID_ARGUMENT, "verify is 3");
}

TEST(lazy_lets_good_weights_pass) {
  const File file(aot_test::seal(aot_test::state_package()).file());
  aot::PackageOptions options;
  options.verify = AOT_VERIFY_LAZY;
  aot::Package package = open_file(file, options);
  make_session(package);
  make_session(package);
}

TEST(a_file_changed_after_the_check) {
  const Sealed sealed = aot_test::seal(aot_test::small_package());
  const File file(sealed.file());
  aot::Package package = open_file(file);
  const std::string plan(package.plan());
  file.change(sealed.header.size() + 20);  // within the plan
  CHECK(package.plan() == plan);
  const auto& code = sealed.rows["kernels/cpu/x86-64-v2"]["data_offsets"];
  file.change(sealed.header.size() + code[0].get<size_t>() + 2000);
  CHECK_FAILS(make_session(package), AOT_CORRUPT_PACKAGE, "checksum of 'kernels/cpu/x86-64-v2'");
}

// Its digest is right again when it is loaded; what its launches were proved with was not.
TEST(declarations_that_are_others_for_a_moment) {
  Builder builder = aot_test::small_package();
  aot_test::declare(&builder);
  const Sealed sealed = aot_test::seal(builder);
  const File file(sealed.file());
  const std::string extent = "[\"*\",8,\"v0\"]";  // of a kernel that no step launches
  const size_t at = sealed.file().find(extent) + 5;
  CHECK(at > sealed.header.size());
  file.change(at);
  aot::Package package = open_file(file);
  CHECK_FAILS(make_session(package), AOT_CORRUPT_PACKAGE, "checksum of 'kernels/cpu/x86-64-v2'");
  file.change(at);
  CHECK_FAILS(make_session(package), AOT_CORRUPT_PACKAGE,
              "declares something else than when the package was opened");
}

TEST(code_that_is_loaded_is_a_copy) {
  const Sealed sealed = aot_test::seal(aot_test::small_package());
  const File file(sealed.file());
  aot::Package package = open_file(file);
  auto session = aot::Session::create(package).value();
  const auto& code = sealed.rows["kernels/cpu/x86-64-v2"]["data_offsets"];
  for (size_t at = code[0].get<size_t>(); at < code[1].get<size_t>(); at += 64) {
    file.change(sealed.header.size() + at);
  }
  const std::vector<float> x(2 * 8, 1.0f);
  const auto outputs = session.run({aot::Tensor::borrow(x.data(), {2, 8})});
  CHECK(outputs.ok());
  CHECK_EQ(outputs.value()[0].data<float>()[1], 4.0f);
}

TEST(what_is_no_file_is_refused_at_once) {
  const File file("");
  ::unlink(file.path().c_str());
  CHECK_EQ(::mkfifo(file.path().c_str(), 0600), 0);
  CHECK_FAILS(open_file(file), AOT_DEVICE_ERROR, "is not a regular file but a FIFO");
  const auto open_path = [](const std::string& path) {
    const auto opened = aot::Package::open(path);
    if (!opened.ok()) throw aot_rt::Error(opened.error().code(), opened.error().what());
  };
  CHECK_FAILS(open_path("/dev/zero"), AOT_DEVICE_ERROR, "is not a regular file but a device");
  CHECK_FAILS(open_path("/tmp"), AOT_DEVICE_ERROR, "is not a regular file but a directory");
}

// ---------------------------------------------------------------- policies

TEST(signatures) {
  if (!Signer::available()) return;
  const Signer alice(1);
  const Signer bob(2);
  const Signer carol(3);
  Sealed sealed = aot_test::seal(aot_test::small_package());
  const File unsigned_file(sealed.file());
  aot::PackageOptions options;
  options.policy.keys = {alice.key(), bob.pem()};
  CHECK_FAILS(open_file(unsigned_file, options), AOT_REFUSED, "wants a signed package");
  const File old(aot_test::small_package().build());
  CHECK_FAILS(open_file(old, options), AOT_REFUSED, "wants a signed package");

  const std::string manifest = sealed.manifest_text();
  sealed.add_signatures(json::array({alice.sign(manifest), carol.sign(manifest)}));
  const File signed_file(sealed.file());
  aot::Package package = open_file(signed_file, options);
  make_session(package);
  options.policy.signatures = 2;
  CHECK_FAILS(open_file(signed_file, options), AOT_REFUSED,
              "the signatures of 2 of 2 keys, and the package has 1 of them");
  options.policy.keys.push_back(carol.key());
  open_file(signed_file, options);
  options.policy.keys = {bob.key()};
  options.policy.signatures = 0;
  CHECK_FAILS(open_file(signed_file, options), AOT_REFUSED, "has 0 of them");

  sealed.add_signatures(json::array({wrong_signature(alice, manifest), carol.sign(manifest)}));
  const File wrong(sealed.file());
  options.policy.keys = {alice.key()};
  CHECK_FAILS(open_file(wrong, options), AOT_REFUSED,
              "the signature of " + alice.key() + " is wrong");
  // Of another package.
  sealed.add_signatures(json::array({alice.sign(manifest + " ")}));
  const File other(sealed.file());
  CHECK_FAILS(open_file(other, options), AOT_REFUSED, "is wrong");
  // One signer does not count twice.
  sealed.add_signatures(json::array({alice.sign(manifest), alice.sign(manifest)}));
  const File twice(sealed.file());
  options.policy.keys = {alice.key(), bob.key()};
  options.policy.signatures = 2;
  CHECK_FAILS(open_file(twice, options), AOT_REFUSED, "has 1 of them");
}

TEST(signatures_that_are_malformed) {
  Sealed sealed = aot_test::seal(aot_test::small_package());
  const auto refused = [&sealed](const json& list, aot_code code, const std::string& part) {
    sealed.add_signatures(list);
    const File file(sealed.file());
    aot::PackageOptions options;
    options.policy.keys = {std::string(64, '1')};
    CHECK_FAILS(open_file(file, options), code, part);
  };
  const json row = {{"algorithm", "ed25519"}, {"key", "12"}, {"signature", "34"}};
  refused(json::array({row}), AOT_CORRUPT_PACKAGE, "is no public key");
  json second = row;
  second["key"] = std::string(64, '1');
  refused(json::array({second}), AOT_CORRUPT_PACKAGE, "is no signature");
  json newer = row;
  newer["algorithm"] = "ml-dsa";
  refused(json::array({newer}), AOT_REFUSED, "wants a signed package");
  refused(json::array({json::object()}), AOT_CORRUPT_PACKAGE, "algorithm");
}

TEST(weights_are_checked_under_keys) {
  if (!Signer::available()) return;
  const Signer alice(1);
  Sealed sealed = aot_test::seal(aot_test::small_package());
  sealed.add_signatures(json::array({alice.sign(sealed.manifest_text())}));
  const File file(sealed.file());
  file.change(sealed.header.size() + sealed.rows["weights/bias"]["data_offsets"][0].get<size_t>());
  aot::PackageOptions options;
  options.policy.keys = {alice.key()};
  aot::Package package = open_file(file, options);
  CHECK_FAILS(make_session(package), AOT_CORRUPT_PACKAGE, "checksum of 'weights/bias'");
  options.policy.trust_weights = true;
  aot::Package trusting = open_file(file, options);
  make_session(trusting);
}

TEST(a_machine_without_cryptography) {
  Sealed sealed = aot_test::seal(aot_test::small_package());
  const json row = {{"algorithm", "ed25519"},
                    {"key", std::string(64, '1')},
                    {"signature", std::string(128, '2')}};
  sealed.add_signatures(json::array({row}));
  const aot_test::AlignedBytes bytes(sealed.file());
  const aot_rt::PackageFiles files = aot_rt::borrow_files(bytes.bytes(), "");
  aot_rt::Policy policy;
  policy.keys = {aot_rt::parse_key(std::string(64, '1'))};
  policy.signatures = 1;
  CHECK_FAILS(aot_rt::check_signatures(policy, files.container, {"libno-such-crypto.so.9"}),
              AOT_REFUSED, "install OpenSSL's libcrypto, 1.1.1 or newer (libno-such-crypto.so.9:");
  // A library that is there and is another.
  CHECK_FAILS(aot_rt::check_signatures(policy, files.container, {"libdl.so.2"}), AOT_REFUSED,
              "it has no Ed25519");
}

TEST(code_that_is_not_listed) {
  const Builder builder = aot_test::small_package();
  const File file(aot_test::seal(builder).file());
  aot::PackageOptions options;
  options.policy.only_listed_code = true;
  CHECK_FAILS(open_file(file, options), AOT_REFUSED,
              "does not list the code 'kernels/cpu/x86-64-v2', SHA-256 ");
  options.policy.code = {builder.plan["entries"]["kernels/cpu/x86-64-v2"]};
  open_file(file, options);
  Builder gpu = builder;
  aot_test::add_device_program(&gpu, "cuda", "sm_90");
  const File both(aot_test::seal(gpu).file());
  CHECK_FAILS(open_file(both, options), AOT_REFUSED, "does not list the code 'kernels/cuda/sm_90");
}

TEST(operator_libraries) {
  Builder builder = aot_test::operator_package();
  const std::string name = "operators/cpu/demo.so";
  builder.add(name, "U8", json::array({4}),
              "\x7f"
              "ELF");
  builder.program()["operator_libraries"] =
      json::array({{{"entry", name}, {"sha256", builder.plan["entries"][name]}}});
  const File file(aot_test::seal(builder).file());
  aot::PackageOptions options;
  open_file(file, options);
  options.policy.operator_libraries = false;
  CHECK_FAILS(open_file(file, options), AOT_REFUSED, "carries 'operators/cpu/demo.so'");
  const File without(aot_test::seal(aot_test::small_package()).file());
  open_file(without, options);
}

TEST(kernels_that_do_not_declare) {
  const File file(aot_test::seal(aot_test::small_package()).file());
  aot::PackageOptions options;
  options.policy.require_proved = true;
  CHECK_FAILS(open_file(file, options), AOT_REFUSED, "does not declare what it touches");
}

TEST(limits_of_all_sessions) {
  const File file(aot_test::seal(aot_test::small_package()).file());
  aot::PackageOptions options;
  options.policy.limits.output_bytes = 64;
  aot::Package package = open_file(file, options);
  aot::SessionOptions more;
  more.limits.output_bytes = 1 << 20;
  auto session = aot::Session::create(package, more).value();
  const std::vector<float> x(9 * 8, 1.0f);
  CHECK(session.run({aot::Tensor::borrow(x.data(), {1, 8})}).ok());
  CHECK_EQ(session.run({aot::Tensor::borrow(x.data(), {9, 8})}).error().code(), AOT_LIMIT_EXCEEDED);
  aot_limits given{};
  given.arena_bytes = 5;
  const aot_rt::Limits most = aot_rt::Limits::most(given);
  CHECK_EQ(aot_rt::Limits::from({}).within(most).arena_bytes, 5);
  CHECK_EQ(most.plan_bytes, INT64_MAX);  // which sessions choose
  CHECK(aot_rt::Limits::from({}).within(most).plan_bytes < INT64_MAX);
}

TEST(policies_without_meaning) {
  const auto read = [](const std::function<void(aot_policy&)>& edit) {
    aot_policy policy{};
    policy.struct_size = sizeof(policy);
    edit(policy);
    return aot_rt::read_policy(&policy);
  };
  const std::string hex(64, 'a');
  const char* const keys[] = {hex.c_str(), hex.c_str(), nullptr};
  const char* const bad[] = {"key"};
  CHECK_FAILS(read([](aot_policy& p) { p.struct_size = 2; }), AOT_INVALID_ARGUMENT, "struct_size");
  CHECK_FAILS(read([](aot_policy& p) { p.key_count = 1; }), AOT_INVALID_ARGUMENT, "keys is NULL");
  CHECK_FAILS(read([](aot_policy& p) { p.code_count = 1; }), AOT_INVALID_ARGUMENT, "code is NULL");
  CHECK_FAILS(read([&](aot_policy& p) { p.keys = bad, p.key_count = 1; }), AOT_INVALID_ARGUMENT,
              "is no Ed25519 public key");
  CHECK_FAILS(read([&](aot_policy& p) { p.keys = keys, p.key_count = 2; }), AOT_INVALID_ARGUMENT,
              "is there twice");
  CHECK_FAILS(read([&](aot_policy& p) { p.keys = keys + 1, p.key_count = 2; }),
              AOT_INVALID_ARGUMENT, "keys[1] is NULL");
  CHECK_FAILS(read([&](aot_policy& p) { p.keys = keys, p.key_count = 1, p.signatures = 2; }),
              AOT_INVALID_ARGUMENT, "2 of 1 keys");
  aot_limits negative{};
  negative.struct_size = sizeof(negative);
  negative.run_ns = -1;
  CHECK_FAILS(read([&](aot_policy& p) { p.limits = &negative; }), AOT_INVALID_ARGUMENT, "run_ns");
  CHECK_EQ(aot_rt::key_text(aot_rt::parse_key(std::string(64, 'A'))), hex);
  CHECK_EQ(aot_rt::read_policy(nullptr).signatures, size_t{0});
  // The struct of a caller whose header ended after `keys`.
  aot_policy old{};
  old.struct_size = offsetof(aot_policy, key_count);
  old.code_count = 7;
  CHECK_EQ(aot_rt::read_policy(&old).keys.size(), size_t{0});
}

}  // namespace

TEST_MAIN
