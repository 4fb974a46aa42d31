#include "sha256.h"

#include <string>

#include "check.h"

namespace {

std::string hash(const std::string& text) {
  return aot_rt::sha256_hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

std::string hash_portable(const std::string& text) {
  return aot_rt::sha256_hex_portable({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// The examples that FIPS 180-4 is published with.
TEST(published_examples) {
  CHECK_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(hash(std::string(1000000, 'a')),
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(both_implementations_agree_at_every_length) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    CHECK_EQ(hash(text), hash_portable(text));
    text += static_cast<char>(i * 37 + 11);
  }
}

TEST(a_pair_has_the_digests_of_its_two) {
  const std::string text(1000, 'x');
  for (size_t first : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{640}, size_t{1000}}) {
    for (size_t second = 0; second < 300; ++second) {
      const auto* data = reinterpret_cast<const uint8_t*>(text.data());
      const auto pair = aot_rt::sha256_hex_pair({data, first}, {data + 7, second});
      CHECK_EQ(pair[0], hash_portable(text.substr(0, first)));
      CHECK_EQ(pair[1], hash_portable(text.substr(7, second)));
    }
  }
}

}  // namespace

TEST_MAIN
