#include "cli/pull/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "cli/pull/checksum.h"
#include "cli/pull/chosen_files.h"
#include "cli/pull/download.h"
#include "cli/pull/refusal_words.h"
#include "cli/terminal/console.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "io/formats/gguf_names.h"
#include "io/json_text.h"
#include "io/quote.h"
#include "net/http_transfer.h"

namespace talon {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kLargestListing = std::size_t{16} << 20;
constexpr std::size_t kMostFiles = 10000;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// A token without what scripts and editors leave around it.
std::string bare_token(std::string text) {
  constexpr const char* kSpace = " \r\n\t";
  text.erase(0, std::min(text.find_first_not_of(kSpace), text.size()));
  text.erase(text.find_last_not_of(kSpace) + 1);
  return text;
}

/// With the home folder for a ~ at the beginning, as the hub's own client reads its variables.
fs::path with_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return variable("HOME") + path.substr(1);
}

/// The file in which the hub's own client keeps a token.
fs::path token_file() {
  if (const std::string file = variable("HF_TOKEN_PATH"); !file.empty()) return with_home(file);
  if (const std::string home = variable("HF_HOME"); !home.empty()) return with_home(home) / "token";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) {
    return fs::path(cache) / "huggingface/token";
  }
  const std::string home = variable("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache/huggingface/token";
}

bool is_plain(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::ranges::all_of(part, [](unsigned char c) {
           return std::isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c); });
}

std::vector<std::string> headers_of(const Hub& hub) {
  if (hub.token.empty()) return {};
  return {"Authorization: Bearer " + hub.token};
}

std::string page_of(const Hub& hub, const std::string& repository) {
  return hub.url + "/" + repository;
}

/// Of what lies at `page`, as people see it.
std::string refusal_text(int status, const std::string& page) {
  return fmt::format(
      "the hub refused ({}): expected a repository that exists and is open, or in $HF_TOKEN the "
      "token of somebody who may read it and has accepted its conditions, if it has some, on {}",
      status, page);
}

/// Why there is no listing of what lies at `page`.
std::string no_listing_text(int status, const std::string& page) {
  if (status == 401 || status == 403) return refusal_text(status, page);
  if (status == 404) return "the hub has no such repository (404)";
  return fmt::format("the hub answered {}", status);
}

/// The text at `url` about what lies at `page`.
std::string fetch_text(const Hub& hub, const std::string& url, const std::string& page,
                       const StopFlag& stop) {
  std::string text;
  RefusalWords words;
  HttpTransfer transfer{.url = url,
                        .headers = headers_of(hub),
                        .goes_on = true,
                        .on_data =
                            [&](int, std::string_view piece) {
                              text += piece;
                              return text.size() <= kLargestListing;
                            },
                        .on_header = [&](std::string_view line) { words.read(line); },
                        .stops = [&] { return stop.requested(); }};
  const TransferOutcome outcome = run_transfer(transfer);
  if (outcome.end == TransferOutcome::End::stopped) fail("pull {}: stopped", url);
  if (text.size() > kLargestListing) {
    fail("pull {}: expected a listing of at most {} bytes, found more", url, kLargestListing);
  }
  if (outcome.end != TransferOutcome::End::done) fail("pull {}: {}", url, outcome.problem);
  if (outcome.status >= 400) {
    fail("pull {}: {}{}", url, no_listing_text(outcome.status, page), words.text(outcome.status));
  }
  return text;
}

std::optional<std::uint64_t> bytes_in(const Json& entry) {
  const auto size = entry.find("size");
  if (size == entry.end() || !size->is_number_unsigned()) return {};
  return size->get<std::uint64_t>();
}

HubFile read_file(const Json& entry, const std::string& url) {
  HubFile file;
  const auto name = entry.find("rfilename");
  if (name == entry.end() || !name->is_string()) {
    fail("pull {}: expected files with names (\"rfilename\"), found {}", url, quote(entry.dump()));
  }
  file.path = name->get<std::string>();
  file.bytes = bytes_in(entry);
  const auto large = entry.find("lfs");
  if (large == entry.end() || !large->is_object()) return file;
  if (!file.bytes) file.bytes = bytes_in(*large);
  for (const char* key : {"sha256", "oid"}) {
    const auto sum = large->find(key);
    if (sum != large->end() && sum->is_string() && is_sha256(sum->get<std::string>())) {
      file.sha256 = sum->get<std::string>();
    }
  }
  std::ranges::transform(file.sha256, file.sha256.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  return file;
}

void keep_first_of_each_path(std::vector<HubFile>& files) {
  std::ranges::stable_sort(files, {}, &HubFile::path);
  const auto repeated = std::ranges::unique(files, {}, &HubFile::path);
  files.erase(repeated.begin(), repeated.end());
}

/// Whole already: of the size and with the checksum that the hub says, as far as it says them; a
/// file that was not whole would have another name.
bool is_here(const fs::path& path, const HubFile& file, const StopFlag& stop) {
  std::error_code problem;
  const auto bytes = fs::file_size(path, problem);
  if (problem || bytes != file.bytes.value_or(bytes)) return false;
  return file.sha256.empty() || checksum_of(path, &stop) == file.sha256;
}

/// Bytes of `files` that have not come to `folder`, as far as the hub says how large they are.
std::uint64_t bytes_to_come(const fs::path& folder, const std::vector<HubFile>& files) {
  std::uint64_t total = 0;
  for (const HubFile& file : files) {
    std::error_code problem;
    std::uint64_t here = fs::file_size(folder / file.path, problem);
    if (problem) here = fs::file_size(folder / (file.path + ".part"), problem);
    if (problem) here = 0;
    const std::uint64_t bytes = file.bytes.value_or(0);
    const std::uint64_t rest = bytes - std::min(here, bytes);
    total += std::min(rest, std::numeric_limits<std::uint64_t>::max() - total);
  }
  return total;
}

/// Before hours of fetching rather than behind them. `folder` need not be there.
void refuse_without_room(const std::string& repository, const fs::path& folder,
                         const std::vector<HubFile>& files) {
  std::error_code problem;
  fs::path place = folder;
  while (!place.empty() && !fs::exists(place, problem)) place = place.parent_path();
  const fs::space_info space = fs::space(place.empty() ? fs::path(".") : place, problem);
  const std::uint64_t needed = bytes_to_come(folder, files);
  if (problem || needed <= space.available) return;
  fail("pull {}: {} needs {} more, {} are free: No space left on device", repository,
       folder.string(), bytes_text(static_cast<double>(needed)),
       bytes_text(static_cast<double>(space.available)));
}

}  // namespace

bool is_safe_path(std::string_view path) {
  while (true) {
    const std::size_t slash = path.find('/');
    if (!is_plain(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

Hub hub_of(const std::string& given) {
  Hub hub;
  hub.url = given.empty() ? variable("HF_ENDPOINT") : given;
  if (hub.url.empty()) hub.url = "https://huggingface.co";
  if (!hub.url.starts_with("https://") && !hub.url.starts_with("http://")) {
    throw UsageError(fmt::format("pull: {}: expected an address with https:// or http://, got {}",
                                 given.empty() ? "$HF_ENDPOINT" : "--hub", quote(hub.url)));
  }
  while (hub.url.ends_with('/')) hub.url.pop_back();
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (hub.token.empty()) hub.token = bare_token(variable(name));
  }
  if (hub.token.empty()) hub.token = bare_token(first_line(token_file()));
  return hub;
}

bool is_hub_name(std::string_view text) {
  return text.find("://") == std::string_view::npos && text.find('/') != std::string_view::npos;
}

HubName parse_hub_name(const std::string& text) {
  HubName name;
  const std::size_t colon = text.find(':');
  name.repository = text.substr(0, colon);
  if (colon != std::string::npos) name.file = text.substr(colon + 1);
  const std::size_t slash = name.repository.find('/');
  const bool fits = is_safe_path(name.repository) && slash != std::string::npos &&
                    name.repository.find('/', slash + 1) == std::string::npos &&
                    (colon == std::string::npos || is_safe_path(name.file));
  if (!fits) throw UsageError(fmt::format("pull: expected OWNER/NAME[:FILE], got {}", quote(text)));
  return name;
}

HubListing list_hub(const Hub& hub, const std::string& repository, const StopFlag& stop) {
  const std::string url =
      fmt::format("{}/api/models/{}/revision/main?blobs=true", hub.url, repository);
  const Json json = parse_json(fetch_text(hub, url, page_of(hub, repository), stop), "pull " + url);
  HubListing listing;
  const auto commit = json.is_object() ? json.find("sha") : json.end();
  const auto files = json.is_object() ? json.find("siblings") : json.end();
  if (commit == json.end() || !commit->is_string() || !is_plain(commit->get<std::string>()) ||
      files == json.end() || !files->is_array() || files->size() > kMostFiles) {
    fail("pull {}: expected \"sha\" and at most {} files as \"siblings\"", url, kMostFiles);
  }
  listing.commit = commit->get<std::string>();
  for (const Json& entry : *files) {
    if (entry.is_object()) listing.files.push_back(read_file(entry, url));
  }
  keep_first_of_each_path(listing.files);
  return listing;
}

PulledFiles pull_from_hub(const Hub& hub, const HubName& name, const fs::path& folder,
                          const StopFlag& stop) {
  const HubListing listing = list_hub(hub, name.repository, stop);
  const std::vector<HubFile> files = chosen_files(listing, name);
  const auto meaning = [&](int status) {
    // a gated repository has a listing for all: that it has no such file is a refusal, too
    const bool is_refusal = status == 401 || status == 403 || status == 404;
    return is_refusal ? refusal_text(status, page_of(hub, name.repository)) : std::string();
  };
  PulledFiles pulled{.folder = folder / name.repository};
  refuse_without_room(name.repository, pulled.folder, files);
  for (const HubFile& file : files) {
    const fs::path path = pulled.folder / file.path;
    std::error_code problem;
    fs::create_directories(path.parent_path(), problem);
    if (problem) {
      fail("pull {}: cannot make the folder {}: {}", name.repository, path.parent_path().string(),
           problem.message());
    }
    const bool is_beside = &file != &files.front() && !is_further_part(file.path);
    if (is_beside && is_head_file(file.path)) pulled.heads.push_back(file.path);
    if (is_here(path, file, stop)) continue;
    if (fs::exists(path, problem)) {
      fail("pull {}: {} is there and not what the hub has: remove it", name.repository,
           path.string());
    }
    download({.url = fmt::format("{}/{}/resolve/{}/{}", hub.url, name.repository, listing.commit,
                                 file.path),
              .target = path,
              .sha256 = file.sha256,
              .headers = headers_of(hub),
              .bytes = file.bytes.value_or(0),
              .stop = &stop,
              .meaning = meaning});
    pulled.had = false;
  }
  const std::string& first = files.front().path;
  pulled.main = first.ends_with(".gguf") ? pulled.folder / first : pulled.folder;
  return pulled;
}

}  // namespace talon
