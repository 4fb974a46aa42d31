#include "package_files.h"

#include <utility>

#include "error.h"
#include "manifest.h"

namespace aot_rt {
namespace {

constexpr const char* kWhat = "file of weights";

void add_weights(PackageFiles* files, const std::string& path, Placing placing) {
  auto file = std::make_unique<MappedFile>(path, kWhat, placing);
  try {
    files->container.add(Container::read_weights(file->bytes()));
  } catch (const Error& error) {
    throw Error(error.code(), cat(kWhat, " '", path, "': ", error.what()));
  }
  if (files->sealed) check_weights_header(files->container);
  files->bytes += file->bytes().size;
  files->files.push_back(std::move(file));
}

PackageFiles read_package(Bytes bytes, const std::string& weights) {
  PackageFiles files;
  files.container = Container::read(bytes);
  files.container.own("plan");
  files.container.own("manifest");
  files.sealed = check_headers(files.container);
  files.bytes = bytes.size;
  if (!weights.empty() && files.container.weights_file().empty()) {
    fail(AOT_INVALID_ARGUMENT, "the package holds its weights itself: it takes no ", kWhat);
  }
  return files;
}

std::string beside(const std::string& path, const std::string& name) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? name : path.substr(0, slash + 1) + name;
}

}  // namespace

PackageFiles open_files(const std::string& path, const std::string& weights, Placing placing) {
  auto file = std::make_unique<MappedFile>(path, "package", placing);
  PackageFiles files = read_package(file->bytes(), weights);
  const std::string& name = files.container.weights_file();
  if (!name.empty()) add_weights(&files, weights.empty() ? beside(path, name) : weights, placing);
  files.files.push_back(std::move(file));
  files.container.forget_headers();
  return files;
}

PackageFiles borrow_files(Bytes bytes, const std::string& weights, Placing placing) {
  PackageFiles files = read_package(bytes, weights);
  const std::string& name = files.container.weights_file();
  if (name.empty()) {
    files.container.forget_headers();
    return files;
  }
  if (weights.empty()) {
    fail(AOT_INVALID_ARGUMENT, "the package's weights are in a file of their own, '", name,
         "': say where it is (aot_package_options.weights)");
  }
  add_weights(&files, weights, placing);
  files.container.forget_headers();
  return files;
}

}  // namespace aot_rt
