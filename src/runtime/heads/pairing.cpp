#include "runtime/heads/pairing.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/options.h"
#include "draft/registry.h"
#include "io/atomic_file.h"
#include "io/checkpoint.h"
#include "io/file_lock.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFingerprint = "target_fingerprint";
constexpr const char* kHeadFile = "head.gguf";
constexpr const char* kItself = ".";  // the folder, among its heads
constexpr std::size_t kMostJsonBytes = std::size_t{16} << 20;

/// Null where the file holds no JSON text or a large one: any file may lie among heads.
Json json_in(const fs::path& file) {
  try {
    const MappedFile mapped(file);
    if (mapped.bytes().size() > kMostJsonBytes) return nullptr;
    Json json = parse_json(mapped.text(), fmt::format("read {}", quote(file.string())));
    mapped.check_whole();
    return json;
  } catch (const Error&) {
    return nullptr;
  }
}

std::string text_in(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The target that a head in GGUF was trained for, by what `talon convert` keeps of it.
std::string target_of_gguf(const fs::path& file) {
  try {
    const Checkpoint head = open_checkpoint(file);
    const std::string origin = text_in(head.metadata, "talon.origin");
    return text_in(parse_json(origin, fmt::format("read {}", quote(file.string()))), kFingerprint);
  } catch (const std::exception&) {
    return "";  // nobody's, as far as can be told
  }
}

/// A target and what is paired with it in a folder.
struct Pairing {
  std::string fingerprint;
  std::vector<std::string> heads;  // files of the folder, or itself
};

Pairing pairing_of(const Json& json) {
  Pairing pairing{text_in(json, kFingerprint), {}};
  if (!json.is_object()) return pairing;
  const auto heads = json.find("heads");
  if (heads == json.end()) pairing.heads = {kItself};
  if (heads == json.end() || !heads->is_array()) return pairing;
  for (const Json& file : *heads) {
    if (file.is_string()) pairing.heads.push_back(file.get<std::string>());
  }
  return pairing;
}

/// Those that the file notes, of which there may be several or, in older files, one.
std::vector<Pairing> pairings_in(const fs::path& file) {
  const Json json = json_in(file);
  const auto pairs = json.is_object() ? json.find("pairs") : json.end();
  if (pairs == json.end() || !pairs->is_array()) return {pairing_of(json)};
  std::vector<Pairing> pairings;
  for (const Json& pair : *pairs) pairings.push_back(pairing_of(pair));
  return pairings;
}

void add_heads(const std::vector<std::string>& heads, Pairing& pairing) {
  for (const std::string& head : heads) {
    const bool known = std::ranges::find(pairing.heads, head) != pairing.heads.end();
    if (!known) pairing.heads.push_back(head);
  }
}

/// The model that a folder's own files say their head is for; empty: none.
std::string target_of_folder(const fs::path& folder) {
  std::error_code problem;
  if (const fs::path file = folder / kHeadFile; fs::is_regular_file(file, problem)) {
    return target_of_gguf(file);
  }
  const fs::path configuration = folder / "config.json";
  if (!fs::is_regular_file(configuration, problem)) return "";
  const Json json = json_in(configuration);
  const auto origin = json.is_object() ? json.find("talon") : json.end();
  return origin == json.end() ? "" : text_in(*origin, kFingerprint);
}

/// The models that `head` is noted for in its folder or, as a file of a repository is, above it.
std::vector<std::string> noted_targets(const fs::path& head, bool is_folder) {
  constexpr int kMostFolders = 3;
  std::error_code problem;
  const fs::path whole = fs::absolute(head, problem).lexically_normal();
  std::vector<std::string> targets;
  fs::path folder = is_folder ? whole : whole.parent_path();
  for (int i = 0; i < kMostFolders; ++i, folder = folder.parent_path()) {
    const fs::path file = folder / kPairingFile;
    if (!fs::is_regular_file(file, problem)) continue;
    const std::string name = folder == whole ? kItself : whole.lexically_relative(folder).string();
    for (const Pairing& pairing : pairings_in(file)) {
      const bool is_paired = std::ranges::find(pairing.heads, name) != pairing.heads.end();
      if (is_paired) targets.push_back(pairing.fingerprint);
    }
  }
  return targets;
}

}  // namespace

std::vector<fs::path> heads_of_folder(const fs::path& folder, const std::string& fingerprint) {
  std::error_code problem;
  if (const fs::path file = folder / kPairingFile; fs::is_regular_file(file, problem)) {
    std::vector<fs::path> heads;
    for (const Pairing& pairing : pairings_in(file)) {
      if (pairing.fingerprint != fingerprint) continue;
      for (const std::string& head : pairing.heads) {
        heads.push_back(head == kItself ? folder : folder / head);
      }
    }
    return heads;
  }
  if (target_of_folder(folder) != fingerprint) return {};
  const fs::path file = folder / kHeadFile;
  return {fs::is_regular_file(file, problem) ? file : folder};
}

bool is_head_of_another(const fs::path& head, const std::string& fingerprint) {
  std::error_code problem;
  const bool is_folder = fs::is_directory(head, problem);
  std::vector<std::string> targets = noted_targets(head, is_folder);
  targets.push_back(is_folder                     ? target_of_folder(head)
                    : head.extension() == ".gguf" ? target_of_gguf(head)
                                                  : "");
  std::erase(targets, "");
  return !targets.empty() && std::ranges::find(targets, fingerprint) == targets.end();
}

std::vector<std::string> heads_of_another(std::string_view drafter,
                                          const std::string& fingerprint) {
  std::vector<std::string> others;
  for (const std::string_view part : split_drafters(drafter)) {
    for (const auto& [key, value] : OptionText(part).items) {
      if (key == "head" && is_head_of_another(value, fingerprint)) others.push_back(value);
    }
  }
  return others;
}

void write_pairing(const fs::path& folder, const std::vector<std::string>& files,
                   const std::string& fingerprint) {
  const fs::path file = folder / kPairingFile;
  const std::string doing = fmt::format("pair heads in {}", quote(folder.string()));
  const FileLock lock(file.string() + ".lock", doing);  // what is read is what is replaced
  std::error_code problem;
  std::vector<Pairing> pairings;
  if (fs::is_regular_file(file, problem)) pairings = pairings_in(file);
  std::erase_if(pairings, [](const Pairing& pairing) { return pairing.fingerprint.empty(); });
  auto same = std::ranges::find(pairings, fingerprint, &Pairing::fingerprint);
  if (same == pairings.end()) same = pairings.insert(same, Pairing{fingerprint, {}});
  add_heads(files.empty() ? std::vector<std::string>{kItself} : files, *same);
  Json pairs = Json::array();
  for (const Pairing& pairing : pairings) {
    pairs.push_back({{kFingerprint, pairing.fingerprint}, {"heads", pairing.heads}});
  }
  const std::string text = Json{{"pairs", pairs}}.dump(2) + "\n";
  write_file(file, std::as_bytes(std::span(text)));
}

}  // namespace talon
