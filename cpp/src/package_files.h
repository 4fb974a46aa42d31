// What a package consists of: its file, and the file of its weights where they are not in it.
#ifndef AOT_SRC_PACKAGE_FILES_H_
#define AOT_SRC_PACKAGE_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "mapped_file.h"
#include "safetensors.h"

namespace aot_rt {

// The container's entries lie in the files, or in memory of the caller; plan and manifest in memory
// of the container's own.
struct PackageFiles {
  std::vector<std::unique_ptr<MappedFile>> files;
  Container container;
  bool sealed = false;  // there is a manifest, and the headers are as it says; false: format 1.0
  size_t bytes = 0;
};

// Opens a package's file, and that of its weights: `weights`, or if that is empty the one that the
// package names, beside it. Throws what MappedFile, Container and check_headers throw; errors of
// the second file name it.
PackageFiles open_files(const std::string& path, const std::string& weights,
                        Placing placing = Placing::kMap);

// The same of a package in memory; weights of their own must be given. Throws INVALID_ARGUMENT when
// they are not.
PackageFiles borrow_files(Bytes bytes, const std::string& weights, Placing placing = Placing::kMap);

}  // namespace aot_rt

#endif  // AOT_SRC_PACKAGE_FILES_H_
