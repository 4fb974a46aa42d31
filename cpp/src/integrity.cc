#include "integrity.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "error.h"
#include "sha256.h"
#include "thread_pool.h"

namespace aot_rt {
namespace {

// Work below this is done before a thread has started.
constexpr size_t kWorthThread = size_t{1} << 20;

bool is_filler(const Entry& entry) { return entry.name.compare(0, 4, "pad/") == 0; }

}  // namespace

Integrity::Integrity(const Container& container, bool sealed, const Plan& plan)
    : container_(container), sealed_(sealed), plan_(plan) {}

void Integrity::expect(const std::string& name, const std::string& sha256,
                       const std::vector<std::string>* blocks) {
  const Entry* entry = container_.find(name);
  if (entry == nullptr) {
    fail(AOT_CORRUPT_PACKAGE, sealed_ ? "the manifest" : "the plan", " has a checksum for '", name,
         "', which is not there");
  }
  expected_[static_cast<size_t>(entry - container_.entries().data())] = {&sha256, blocks, true};
}

// What header and plan say of an entry is what the manifest says.
void Integrity::expect_from_manifest() {
  manifest_ = read_manifest(container_);
  for (const ManifestRow& row : manifest_.rows) {
    expect(row.name, row.sha256, &row.blocks);
    const Entry& entry = *container_.find(row.name);
    if (entry.dtype != row.dtype || entry.shape != row.shape) {
      fail(AOT_CORRUPT_PACKAGE, "the manifest has another type or shape of '", row.name,
           "' than the header");
    }
  }
  for (const auto& [name, digest] : plan_.checksums) {
    const Entry* entry = container_.find(name);
    const std::string* said = nullptr;
    if (entry != nullptr) {
      said = expected_[static_cast<size_t>(entry - container_.entries().data())].sha256;
    }
    if (said == nullptr || *said != digest) {
      fail(AOT_CORRUPT_PACKAGE, "the plan has another checksum for '", name, "' than the manifest");
    }
  }
}

void Integrity::prepare() {
  if (!checked_.empty()) return;
  expected_.assign(container_.entries().size(), {});
  if (sealed_) {
    expect_from_manifest();
  } else {
    for (const auto& [name, digest] : plan_.checksums) expect(name, digest, nullptr);
  }
  std::vector<bool> checked;
  for (size_t i = 0; i < expected_.size(); ++i) {
    const Entry& entry = container_.entries()[i];
    // Plan and manifest were checked before anything else was read.
    checked.push_back(entry.name == "plan" || entry.name == "manifest");
    if (is_filler(entry)) expected_[i] = {nullptr, nullptr, true};
  }
  checked_ = std::move(checked);
}

void Integrity::add_pieces(const Entry& entry, std::vector<Piece>* pieces) const {
  const auto id = static_cast<size_t>(&entry - container_.entries().data());
  if (checked_[id]) return;
  const Expected& expected = expected_[id];
  if (!expected.known) {
    fail(AOT_CORRUPT_PACKAGE, sealed_ ? "the manifest" : "the plan", " has no checksum for entry '",
         entry.name, "'");
  }
  if (expected.blocks == nullptr || expected.blocks->empty()) {
    pieces->push_back({&entry, entry.bytes, expected.sha256, 0});
    return;
  }
  for (size_t i = 0; i < expected.blocks->size(); ++i) {
    const size_t begin = i * manifest_.block_bytes;
    const size_t size = std::min(manifest_.block_bytes, entry.bytes.size - begin);
    pieces->push_back({&entry, {entry.bytes.data + begin, size}, &(*expected.blocks)[i], i});
  }
}

size_t Integrity::right_ones(const Piece* pieces, size_t count) {
  if (count == 2 && pieces[0].sha256 != nullptr && pieces[1].sha256 != nullptr) {
    const auto digests = sha256_hex_pair(pieces[0].bytes, pieces[1].bytes);
    if (digests[0] != *pieces[0].sha256) return 0;
    return digests[1] == *pieces[1].sha256 ? 2 : 1;
  }
  for (size_t i = 0; i < count; ++i) {
    const Bytes bytes = pieces[i].bytes;
    const bool right =
        pieces[i].sha256 != nullptr
            ? sha256_hex(bytes) == *pieces[i].sha256
            : std::all_of(bytes.data, bytes.data + bytes.size, [](uint8_t b) { return b == 0; });
    if (!right) return i;
  }
  return count;
}

void Integrity::report(const Piece& piece) {
  const std::string& name = piece.entry->name;
  if (piece.sha256 == nullptr) fail(AOT_CORRUPT_PACKAGE, "filler entry '", name, "' is not zero");
  const bool whole = piece.bytes.size == piece.entry->bytes.size;
  fail(AOT_CORRUPT_PACKAGE, "checksum of '", name, "'",
       whole ? std::string() : cat(", block ", piece.block, ","), " is ", sha256_hex(piece.bytes),
       ", the package says ", *piece.sha256);
}

void Integrity::check_pieces(const std::vector<Piece>& pieces, int32_t threads) {
  std::atomic<size_t> next{0};
  std::atomic<size_t> wrong{pieces.size()};  // the first one
  std::atomic<bool> exhausted{false};        // no memory for a digest
  const auto work = [&]() noexcept {
    try {
      for (size_t begin = next.fetch_add(2); begin < pieces.size() && begin < wrong;
           begin = next.fetch_add(2)) {
        const size_t count = std::min<size_t>(2, pieces.size() - begin);
        const size_t right = right_ones(&pieces[begin], count);
        if (right == count) continue;
        size_t before = wrong;
        while (begin + right < before && !wrong.compare_exchange_weak(before, begin + right)) {
        }
      }
    } catch (const std::bad_alloc&) {
      exhausted = true;
    }
  };
  size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes.size;
  const auto most = static_cast<size_t>(threads != 0 ? threads : usable_cores());
  if (pieces.empty()) return;
  const size_t helpers = std::min({most, pieces.size(), bytes / kWorthThread + 1}) - 1;
  // Threads of their own, gone at the end: to open a package starts no pool.
  std::vector<std::thread> crew;
  crew.reserve(helpers);
  try {
    for (size_t i = 0; i < helpers; ++i) crew.emplace_back(work);
  } catch (const std::system_error&) {
    // With those that there are.
  } catch (const std::bad_alloc&) {
    exhausted = true;
  }
  work();
  for (std::thread& helper : crew) helper.join();
  if (exhausted) throw std::bad_alloc();
  if (wrong < pieces.size()) report(pieces[wrong]);
}

void Integrity::check_all(int32_t threads) {
  const std::lock_guard<Lock> lock(lock_);
  prepare();
  std::vector<const Entry*> order;
  for (const Entry& entry : container_.entries()) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return a->bytes.data < b->bytes.data;  // disks like it
  });
  std::vector<Piece> pieces;
  for (const Entry* entry : order) add_pieces(*entry, &pieces);
  check_pieces(pieces, threads);
  checked_.assign(checked_.size(), true);
}

void Integrity::check(const std::vector<const Entry*>& entries) {
  const std::lock_guard<Lock> lock(lock_);
  prepare();
  std::vector<Piece> pieces;
  for (const Entry* entry : entries) add_pieces(*entry, &pieces);
  check_pieces(pieces, 0);
  for (const Entry* entry : entries) {
    checked_[static_cast<size_t>(entry - container_.entries().data())] = true;
  }
}

}  // namespace aot_rt
