#include "repository.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace serve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackage = "model.pkg";
constexpr const char* kConfig = "config.json";
constexpr uintmax_t kMaxConfig = 1 << 20;

// A name is a folder's: one that leads elsewhere is none.
void check_name(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  });
  if (!plain || name.empty() || name[0] == '.' || name.size() > 200) {
    throw aot::Error(AOT_NOT_FOUND, "'" + name.substr(0, 200) + "' is no model's name");
  }
}

// The number that a folder of a version has as its name, or -1.
int64_t version_number(const std::string& name) {
  const bool digits = !name.empty() && name.size() <= 18 &&
                      name.find_first_not_of("0123456789") == std::string::npos;
  return digits && (name[0] != '0' || name.size() == 1) ? std::stoll(name) : -1;
}

std::vector<int64_t> version_folders(const fs::path& folder) {
  std::vector<int64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const int64_t version = version_number(entry.path().filename().string());
    if (version >= 0 && fs::exists(entry.path() / kPackage, error)) found.push_back(version);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int64_t> wanted_versions(const std::vector<int64_t>& found, const Config& config,
                                     const std::string& name) {
  if (found.empty()) {
    throw aot::Error(AOT_NOT_FOUND, "model '" + name + "' has no folder of a version with a " +
                                        kPackage + ", such as " + name + "/1/" + kPackage);
  }
  if (config.all_versions) return found;
  if (config.versions.empty()) return {found.back()};
  std::vector<int64_t> wanted;
  for (const std::string& version : config.versions) {
    const int64_t number = version_number(version);
    if (!std::binary_search(found.begin(), found.end(), number)) {
      throw aot::Error(AOT_NOT_FOUND, "model '" + name + "' has no version " + version +
                                          ", which its " + kConfig + " names");
    }
    wanted.push_back(number);
  }
  return wanted;
}

}  // namespace

Repository::Repository(std::string folder, aot::PackageOptions options, Metrics& metrics, Log& log)
    : folder_(std::move(folder)), options_(std::move(options)), metrics_(metrics), log_(log) {}

void Repository::load_all() {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory(error) && name[0] != '.') names.push_back(name);
  }
  if (error) {
    throw aot::Error(AOT_NOT_FOUND, folder_.string() + ": " + error.message() +
                                        "; wanted is a folder with models in it, such as " +
                                        (folder_ / "mlp" / "1" / kPackage).string());
  }
  if (names.empty()) {
    log_.write(LogLevel::kWarning, "no models",
               {{"reason", "there is no model in it, such as " +
                               (folder_ / "mlp" / "1" / kPackage).string()}});
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    try {
      load(name);
    } catch (const aot::Error&) {  // it is in the log and in the index
      const std::lock_guard<std::mutex> lock(mutex_);
      missing_.insert(name);
    }
  }
}

Config Repository::read_config_file(const fs::path& folder) const {
  const fs::path path = folder / kConfig;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  if (fs::file_size(path, error) > kMaxConfig || error) {
    throw aot::Error(AOT_INVALID_ARGUMENT, path.string() + ": cannot be read, or is too large");
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return read_config(text.str(), path.string());
}

Repository::Versions Repository::read(const std::string& name) const {
  check_name(name);
  const fs::path folder = folder_ / name;
  const Config config = read_config_file(folder);
  Versions versions;
  for (const int64_t version : wanted_versions(version_folders(folder), config, name)) {
    const std::string number = std::to_string(version);
    const std::string path = (folder / number / kPackage).string();
    versions[version] = Model::load(name, number, path, config, options_, metrics_);
  }
  return versions;
}

void Repository::load(const std::string& name) {
  const std::lock_guard<std::mutex> change(changing_);
  Versions versions;
  try {
    versions = read(name);
  } catch (const aot::Error& error) {
    log_.write(LogLevel::kError, "load failed",
               {{"model", name}, {"code", error.code_name()}, {"reason", error.what()}});
    set_failure(name, error.what());
    throw;
  }
  for (const auto& [version, model] : versions) {
    log_.write(LogLevel::kInfo, "load",
               {{"model", name},
                {"version", version},
                {"sessions", model->config().sessions},
                {"threads", model->config().threads},
                {"max_batch", model->config().max_batch}});
  }
  replace(name, std::move(versions));
}

void Repository::unload(const std::string& name) {
  const std::lock_guard<std::mutex> change(changing_);
  if (versions(name).empty()) {
    throw aot::Error(AOT_NOT_FOUND, "model '" + name + "' is not loaded");
  }
  replace(name, {});
  log_.write(LogLevel::kInfo, "unload", {{"model", name}});
}

void Repository::replace(const std::string& name, Versions versions) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [version, model] : models_[name]) {
      metrics_.model(name, std::to_string(version))->ready->Set(0);
    }
    for (const auto& [version, model] : versions) {
      metrics_.model(name, std::to_string(version))->ready->Set(1);
    }
    models_[name].swap(versions);
    if (models_[name].empty()) models_.erase(name);
    failures_.erase(name);
    missing_.erase(name);
  }
  // The old ones: whoever found one before may still give it a request, which is then sent on.
  for (const auto& [version, model] : versions) model->retire();
}

void Repository::set_failure(const std::string& name, const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Names that are no folder's are a client's, who must not fill memory with them.
  std::error_code error;
  if (reason.find("is no model's name") == std::string::npos &&
      fs::is_directory(folder_ / name, error)) {
    failures_[name] = reason;
  }
}

void Repository::retire_all() {
  std::map<std::string, Versions> models;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    models.swap(models_);
  }
  for (const auto& [name, versions] : models) {
    for (const auto& [version, model] : versions) model->retire();
  }
}

void Repository::cancel_all(const aot::Error& why) {
  std::vector<std::shared_ptr<Model>> models;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, versions] : models_) {
      for (const auto& [version, model] : versions) models.push_back(model);
    }
  }
  for (const auto& model : models) model->scheduler().cancel_all(why);
}

std::shared_ptr<Model> Repository::find(const std::string& name, const std::string& version) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) {
    std::string known;
    for (const auto& [other, versions] : models_) {
      known += (known.empty() ? "'" : ", '") + other + "'";
    }
    const auto failure = failures_.find(name);
    throw aot::Error(AOT_NOT_FOUND, "model '" + name.substr(0, 200) + "' is not loaded" +
                                        (failure != failures_.end() ? ": " + failure->second
                                         : known.empty()            ? "; none is"
                                                                    : "; there are " + known));
  }
  if (version.empty()) return found->second.rbegin()->second;
  const auto exact = found->second.find(version_number(version));
  if (exact != found->second.end()) return exact->second;
  std::string known;
  for (const auto& [other, model] : found->second) {
    known += (known.empty() ? "" : ", ") + std::to_string(other);
  }
  throw aot::Error(AOT_NOT_FOUND, "model '" + name + "' has no version '" + version.substr(0, 40) +
                                      "' loaded; there are " + known);
}

std::vector<std::string> Repository::versions(const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> list;
  const auto found = models_.find(name);
  if (found == models_.end()) return list;
  for (const auto& [version, model] : found->second) list.push_back(std::to_string(version));
  return list;
}

std::vector<IndexRow> Repository::index() const {
  std::map<std::pair<std::string, int64_t>, IndexRow> rows;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.' || !entry.is_directory(error)) continue;
    for (const int64_t version : version_folders(entry.path())) {
      rows[{name, version}] = {name, std::to_string(version), false, "not loaded"};
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [key, row] : rows) {
    const auto failure = failures_.find(row.name);
    if (failure != failures_.end()) row.reason = failure->second;
  }
  for (const auto& [name, reason] : failures_) {
    const auto first = rows.lower_bound({name, 0});
    if (first == rows.end() || first->first.first != name)
      rows[{name, 0}] = {name, "", false, reason};
  }
  for (const auto& [name, versions] : models_) {
    for (const auto& [version, model] : versions) {
      rows[{name, version}] = {name, std::to_string(version), true, ""};
    }
  }
  std::vector<IndexRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  return list;
}

bool Repository::ready() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return missing_.empty();
}

}  // namespace serve
