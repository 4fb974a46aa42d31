// A folder of models: NAME/VERSION/model.pkg, and NAME/config.json where one is wanted.
#ifndef AOT_SERVE_REPOSITORY_H_
#define AOT_SERVE_REPOSITORY_H_

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "config.h"
#include "log.h"
#include "metrics.h"
#include "model.h"

namespace serve {

// One version of a model, as the index shows it.
struct IndexRow {
  std::string name;
  std::string version;
  bool ready = false;
  std::string reason;  // why not
};

// Safe to use from any thread. What is being served changes at once, from one set of versions to
// the next: a request finds the old or the new, never none.
class Repository {
 public:
  Repository(std::string folder, aot::PackageOptions options, Metrics& metrics, Log& log);

  // Loads every model of the folder; what fails is in the log and the index.
  void load_all();
  // The model as its folder is now, in place of what is served; returns when requests under way
  // have ended. On failure all stays as it was, and aot::Error is thrown.
  void load(const std::string& name);
  // Takes a model out of service; returns when its requests have ended.
  void unload(const std::string& name);
  // Takes all out of service. With `why`, requests under way end with it.
  void retire_all();
  void cancel_all(const aot::Error& why);

  // The version, or the latest one for "". Throws NOT_FOUND, saying what there is.
  std::shared_ptr<Model> find(const std::string& name, const std::string& version) const;
  std::vector<std::string> versions(const std::string& name) const;
  // What is served and what is in the folder, by name and version.
  std::vector<IndexRow> index() const;
  // True unless a model that was in the folder at the start could not be loaded, and still is not.
  bool ready() const;

 private:
  using Versions = std::map<int64_t, std::shared_ptr<Model>>;

  Versions read(const std::string& name) const;
  Config read_config_file(const std::filesystem::path& folder) const;
  void replace(const std::string& name, Versions versions);
  void set_failure(const std::string& name, const std::string& reason);

  const std::filesystem::path folder_;
  const aot::PackageOptions options_;
  Metrics& metrics_;
  Log& log_;
  std::mutex changing_;  // one change at a time
  mutable std::mutex mutex_;
  std::map<std::string, Versions> models_;
  std::map<std::string, std::string> failures_;
  std::set<std::string> missing_;  // failed at the start, and nobody has mended them
};

}  // namespace serve

#endif  // AOT_SERVE_REPOSITORY_H_
