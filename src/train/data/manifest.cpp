#include "train/data/manifest.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "io/sha256.h"
#include "model/target.h"
#include "train/data/checksum.h"

namespace talon {
namespace {

constexpr const char* kFileName = "manifest.json";
constexpr const char* kFormat = "talon training data";
constexpr int kVersion = 1;
constexpr std::int64_t kMostSize = 1 << 24;

/// Holds the lock of a folder: one process at a time changes its manifest.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX) != 0) {
      fail("lock the folder {}: {}", quote(folder.string()),
           std::generic_category().message(errno));
    }
  }
  ~FolderLock() { ::close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

Json target_json(const Manifest& manifest) {
  const DatasetInfo& info = manifest.info;
  Json json = {{"model", info.model},   {"sha256", info.model_sha256},
               {"hidden", info.hidden}, {"vocabulary", info.vocabulary},
               {"taps", info.taps},     {"settings", manifest.target_settings}};
  if (info.features != FeatureType::f16) json["features"] = name_of(info.features);
  if (!info.fingerprint.empty()) json["fingerprint"] = info.fingerprint;
  return json;
}

/// What decides whether conversations may lie together: everything but the model's name and its
/// fingerprint, which its sum decides and older folders do not have.
Json identity(const Manifest& manifest) {
  Json json = target_json(manifest);
  json.erase("model");
  json.erase("fingerprint");
  return json;
}

class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail("{}: expected an object", where_);
  }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail("{}: expected \"{}\", found none", where_, key);
    return *found;
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) fail("{}: \"{}\": expected a text", where_, key);
    return at(key);
  }
  int size(const char* key) const { return number(at(key), key, 1); }
  int number(const Json& value, const char* key, std::int64_t least) const {
    const bool fits = value.is_number_integer() && value.get<std::int64_t>() >= least &&
                      value.get<std::int64_t>() <= kMostSize;
    if (!fits) {
      fail("{}: \"{}\": expected a whole number from {} to {}, found {}", where_, key, least,
           kMostSize, value.dump());
    }
    return value;
  }
  std::vector<int> numbers(const char* key, std::int64_t least) const {
    if (!at(key).is_array()) fail("{}: \"{}\": expected a list", where_, key);
    std::vector<int> values;
    for (const Json& value : at(key)) values.push_back(number(value, key, least));
    return values;
  }

 private:
  const Json& json_;
  std::string where_;
};

/// "f16" is not said.
FeatureType feature_type(const Json& target, const std::string& where) {
  const auto found = target.find("features");
  if (found == target.end()) return FeatureType::f16;
  const auto type = found->is_string() ? feature_type_of(found->get<std::string>()) : std::nullopt;
  if (!type) {
    fail("{}, target: \"features\": expected f16 or q8, found {}", where, found->dump());
  }
  return *type;
}

Manifest parse(const Json& json, const std::string& where) {
  const Fields all(json, where);
  if (all.text("format") != kFormat || all.at("version") != kVersion) {
    fail("{}: expected the format \"{}\", version {}, found {}, version {}", where, kFormat,
         kVersion, all.at("format").dump(), all.at("version").dump());
  }
  const Fields target(all.at("target"), where + ", target");
  Manifest manifest;
  manifest.info.model = target.text("model");
  manifest.info.model_sha256 = target.text("sha256");
  manifest.info.hidden = target.size("hidden");
  manifest.info.vocabulary = target.size("vocabulary");
  manifest.info.taps = target.numbers("taps", FeatureTap::kFinalNorm);
  manifest.info.features = feature_type(all.at("target"), where);
  if (all.at("target").contains("fingerprint"))
    manifest.info.fingerprint = target.text("fingerprint");
  manifest.target_settings = target.at("settings");
  manifest.runs = all.at("runs");
  if (!manifest.runs.is_array()) fail("{}: \"runs\": expected a list", where);
  manifest.counts = json.value("counts", Json::object());
  return manifest;
}

void write(const std::filesystem::path& folder, const Manifest& manifest) {
  const Json json = {{"format", kFormat},
                     {"version", kVersion},
                     {"target", target_json(manifest)},
                     {"runs", manifest.runs},
                     {"counts", manifest.counts}};
  const std::string text = json.dump(2) + "\n";
  write_file(folder / kFileName, std::as_bytes(std::span(text.data(), text.size())));
}

void check_same_target(const std::filesystem::path& folder, const Manifest& found,
                       const Manifest& wanted) {
  Json there = identity(found), here = identity(wanted);
  for (Json* json : {&there, &here}) json->emplace("features", name_of(FeatureType::f16));
  for (const auto& [key, value] : here.items()) {
    if (there[key] == value) continue;
    fail(
        "add to the training data in {}: its target's {} is {}, this one's is {}: use another "
        "folder",
        quote(folder.string()), key, there[key].dump(), value.dump());
  }
}

}  // namespace

ShardKind Manifest::shard_kind() const {
  return {checksum(identity(*this).dump()), static_cast<std::uint32_t>(info.row_values()),
          static_cast<std::uint32_t>(info.vocabulary), info.features};
}

Json activations_json(Activations activations) {
  if (activations == Activations::mixed) return name_of(activations);
  return activations == Activations::bits8 ? 8 : 16;
}

std::optional<Manifest> read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFileName;
  std::error_code error;
  const bool is_there = std::filesystem::exists(path, error);
  if (error) fail("read {}: {}", quote(path.string()), error.message());
  if (!is_there) return std::nullopt;
  const MappedFile file(path);
  const std::string where = "read " + quote(path.string());
  return parse(parse_json(file.text(), where), where);
}

Manifest add_run(const std::filesystem::path& folder, const Manifest& target, const Json& run) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("write data to {}: {}", folder.string(), error.message());
  const FolderLock lock(folder);
  Manifest manifest = target;
  if (auto found = read_manifest(folder)) {
    check_same_target(folder, *found, target);
    manifest = *std::move(found);
  }
  if (std::find(manifest.runs.begin(), manifest.runs.end(), run) != manifest.runs.end()) {
    return manifest;
  }
  manifest.runs.push_back(run);
  write(folder, manifest);
  return manifest;
}

void update_counts(const std::filesystem::path& folder) {
  const Dataset dataset(folder);
  std::uint64_t greedy = 0;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    const ConversationSize size = dataset.size_of(i);
    if (size.temperature == 0) greedy += static_cast<std::uint64_t>(size.response_tokens());
  }
  const FolderLock lock(folder);
  Manifest manifest = read_manifest(folder).value();
  manifest.counts = {{"conversations", dataset.size()},
                     {"prompt_tokens", dataset.tokens() - dataset.response_tokens()},
                     {"response_tokens", dataset.response_tokens()},
                     {"greedy_response_tokens", greedy}};
  write(folder, manifest);
}

std::string model_checksum(const std::filesystem::path& model) {
  if (!std::filesystem::is_directory(model)) return sha256_of_file(model);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string sums;
  for (const auto& file : files)
    sums += file.filename().string() + " " + sha256_of_file(file) + "\n";
  return sha256_of(std::as_bytes(std::span(sums.data(), sums.size())));
}

}  // namespace talon
