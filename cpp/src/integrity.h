// Whether bytes of entries are those that were packaged: all of them at once, or those about to be
// used.
#ifndef AOT_SRC_INTEGRITY_H_
#define AOT_SRC_INTEGRITY_H_

#include <vector>

#include "lock.h"
#include "manifest.h"
#include "plan.h"
#include "safetensors.h"

namespace aot_rt {

// Belongs to a package, whose parts outlive it. Any thread.
class Integrity {
 public:
  // `sealed`: the package has a manifest; else its plan has the checksums.
  Integrity(const Container& container, bool sealed, const Plan& plan);

  // Checks every byte of every entry with as many threads as there are cores, `threads` of them if
  // it is not 0. Throws CORRUPT_PACKAGE, which names the first entry, in the order of the file,
  // that is not as it was packaged.
  void check_all(int32_t threads = 0);

  // The same for these entries, those aside that were checked before.
  void check(const std::vector<const Entry*>& entries);

 private:
  // What an entry must be; fillers are zeros, and have no digest.
  struct Expected {
    const std::string* sha256 = nullptr;
    const std::vector<std::string>* blocks = nullptr;  // nullptr or empty: one piece
    bool known = false;
  };
  // A part of an entry that one thread checks.
  struct Piece {
    const Entry* entry;
    Bytes bytes;
    const std::string* sha256;  // nullptr: zeros
    size_t block;
  };
  // How many of the `count` pieces (1 or 2, checked side by side) are right before a wrong one.
  static size_t right_ones(const Piece* pieces, size_t count);

  void expect(const std::string& name, const std::string& sha256,
              const std::vector<std::string>* blocks);
  void expect_from_manifest();
  void add_pieces(const Entry& entry, std::vector<Piece>* pieces) const;
  static void check_pieces(const std::vector<Piece>& pieces, int32_t threads);
  [[noreturn]] static void report(const Piece& piece);
  void prepare();

  const Container& container_;
  const bool sealed_;
  const Plan& plan_;

  Lock lock_{"the package's checks"};
  Manifest manifest_;               // read when first needed, as are these
  std::vector<Expected> expected_;  // of the container's entries
  std::vector<bool> checked_;       // the same
};

}  // namespace aot_rt

#endif  // AOT_SRC_INTEGRITY_H_
