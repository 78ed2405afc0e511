#include "cli/pull/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "cli/environment.h"
#include "cli/pull/checksum.h"
#include "cli/pull/chosen_files.h"
#include "cli/pull/download.h"
#include "cli/pull/refusal_words.h"
#include "cli/pull/retry.h"
#include "cli/terminal/console.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "io/formats/gguf_names.h"
#include "io/quote.h"
#include "net/http_transfer.h"
#include "runtime/model_source.h"

namespace talon {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kLargestListing = std::size_t{16} << 20;

/// Whether a variable says yes, as the hub's own client reads them.
bool is_set(const char* name) {
  constexpr std::string_view kYes[] = {"1", "true", "on", "yes"};
  std::string value = environment(name);
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kYes, value) != std::end(kYes);
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
  return environment("HOME") + path.substr(1);
}

/// The file in which the hub's own client keeps a token.
fs::path token_file() {
  if (const std::string file = environment("HF_TOKEN_PATH"); !file.empty()) return with_home(file);
  if (const std::string home = environment("HF_HOME"); !home.empty())
    return with_home(home) / "token";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return fs::path(cache) / "huggingface/token";
  }
  const std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache/huggingface/token";
}

bool is_plain(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::ranges::all_of(part, [](unsigned char c) {
           return std::isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

std::vector<std::string> headers_of(const Hub& hub) {
  if (hub.token.empty()) return {};
  return {"Authorization: Bearer " + hub.token};
}

std::string page_of(const Hub& hub, const std::string& repository) {
  return hub.url + "/" + repository;
}

std::string revision_of(const HubName& name) {
  return name.revision.empty() ? "main" : name.revision;
}

/// A revision as one part of an address.
std::string part_of_address(const std::string& revision) {
  std::string part;
  for (const char c : revision) part += c == '/' ? std::string("%2F") : std::string(1, c);
  return part;
}

/// Of what lies at `page`, as people see it.
std::string refusal_text(int status, const std::string& page) {
  return fmt::format(
      "the hub refused ({}): expected a repository that exists and is open, or in $HF_TOKEN the "
      "token of somebody who may read it and has accepted its conditions, if it has some, on {}",
      status, page);
}

/// Why there is no listing of what `name` says, which lies at `page`.
std::string no_listing_text(int status, const HubName& name, const std::string& page,
                            const RefusalWords& words) {
  if (status == 401 || status == 403) return refusal_text(status, page);
  if (status != 404) return fmt::format("the hub answered {}", status);
  if (words.code() == "RevisionNotFound") {
    return fmt::format("the hub has no revision {} of {} (404)", quote(revision_of(name)),
                       name.repository);
  }
  return name.revision.empty() ? "the hub has no such repository (404)"
                               : "the hub has no such repository or revision (404)";
}

/// One try to fetch the text at `url`, the listing of what `name` says.
std::string fetch_listing(const Hub& hub, const std::string& url, const HubName& name,
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
  if (outcome.end != TransferOutcome::End::done) {
    fail_transfer(fmt::format("pull {}: {}", url, outcome.problem), outcome, words);
  }
  if (outcome.status >= 400) {
    const std::string page = page_of(hub, name.repository);
    const std::string why = no_listing_text(outcome.status, name, page, words);
    fail_transfer(fmt::format("pull {}: {}{}", url, why, words.text(outcome.status)), outcome,
                  words);
  }
  return text;
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
void refuse_without_room(const HubName& name, const fs::path& folder,
                         const std::vector<HubFile>& files) {
  std::error_code problem;
  fs::path place = folder;
  while (!place.empty() && !fs::exists(place, problem)) place = place.parent_path();
  const fs::space_info space = fs::space(place.empty() ? fs::path(".") : place, problem);
  const std::uint64_t needed = bytes_to_come(folder, files);
  if (problem || needed <= space.available) return;
  fail("pull {}: {} needs {} more, {} are free: No space left on device", without_file(name),
       folder.string(), bytes_text(static_cast<double>(needed)),
       bytes_text(static_cast<double>(space.available)));
}

/// For `why`, where the hub is not to be asked.
[[noreturn]] void refuse_offline(const HubName& name, const std::string& why) {
  fail("pull {}: {}, and the hub is not asked: $HF_HUB_OFFLINE is set", without_file(name), why);
}

/// By what an earlier pull kept in `folder`.
HubListing listing_offline(const HubName& name, const fs::path& folder) {
  std::optional<HubListing> listing = kept_listing(folder);
  if (!listing) refuse_offline(name, folder.string() + " has nothing that was pulled whole");
  return std::move(*listing);
}

std::vector<HubFile> files_to_pull(const HubListing& listing, const HubName& name, const Hub& hub) {
  try {
    return chosen_files(listing, name);
  } catch (const Error& error) {
    if (!hub.is_offline) throw;
    fail("{} (by the listing of an earlier pull: $HF_HUB_OFFLINE is set)", error.what());
  }
}

/// Where files of one pull come from.
struct FileSource {
  const Hub& hub;
  const HubName& name;
  const std::string& commit;
  const StopFlag& stop;
};

void fetch_file(const FileSource& from, const HubFile& file, const fs::path& path) {
  const std::string& repository = from.name.repository;
  std::error_code problem;
  fs::create_directories(path.parent_path(), problem);
  if (problem) {
    fail("pull {}: cannot make the folder {}: {}", without_file(from.name),
         path.parent_path().string(), problem.message());
  }
  if (fs::exists(path, problem)) {
    fail("pull {}: {} is there and not what the hub has: remove it", without_file(from.name),
         path.string());
  }
  const auto meaning = [&](int status) {
    // a gated repository has a listing for all: that it has no such file is a refusal, too
    const bool is_refusal = status == 401 || status == 403 || status == 404;
    return is_refusal ? refusal_text(status, page_of(from.hub, repository)) : std::string();
  };
  download(
      {.url = fmt::format("{}/{}/resolve/{}/{}", from.hub.url, repository, from.commit, file.path),
       .target = path,
       .sha256 = file.sha256,
       .headers = headers_of(from.hub),
       .bytes = file.bytes.value_or(0),
       .stop = &from.stop,
       .meaning = meaning});
}

/// What is pulled is of use where that cannot be kept, too.
void try_to_keep(const HubListing& listing, const HubName& name, const fs::path& folder) {
  try {
    keep_listing(folder, listing);
  } catch (const Error& error) {
    note("pull {}: is not found with $HF_HUB_OFFLINE: {}", without_file(name), error.what());
  }
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
  hub.url = given.empty() ? environment("HF_ENDPOINT") : given;
  if (hub.url.empty()) hub.url = "https://huggingface.co";
  if (!hub.url.starts_with("https://") && !hub.url.starts_with("http://")) {
    throw UsageError(fmt::format("pull: {}: expected an address with https:// or http://, got {}",
                                 given.empty() ? "$HF_ENDPOINT" : "--hub", quote(hub.url)));
  }
  while (hub.url.ends_with('/')) hub.url.pop_back();
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (hub.token.empty()) hub.token = bare_token(environment(name));
  }
  if (hub.token.empty()) hub.token = bare_token(first_line(token_file()));
  hub.is_offline = is_set("HF_HUB_OFFLINE");
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
  const std::size_t at = name.repository.find('@');
  if (at != std::string::npos) {
    name.revision = name.repository.substr(at + 1);
    name.repository.resize(at);
  }
  const std::size_t slash = name.repository.find('/');
  const bool fits = is_safe_path(name.repository) && slash != std::string::npos &&
                    name.repository.find('/', slash + 1) == std::string::npos &&
                    (colon == std::string::npos || is_safe_path(name.file));
  if (!fits) {
    throw UsageError(
        fmt::format("pull: expected OWNER/NAME[@REVISION][:FILE], got {}", quote(text)));
  }
  if (at != std::string::npos && !is_safe_path(name.revision)) {
    throw UsageError(
        fmt::format("pull {}: expected as REVISION a branch, a tag or a commit (letters, digits, "
                    "\"-_./\"), got {}",
                    name.repository, quote(name.revision)));
  }
  return name;
}

std::string without_file(const HubName& name) {
  return name.revision.empty() ? name.repository : name.repository + "@" + name.revision;
}

HubListing list_hub(const Hub& hub, const HubName& name, const StopFlag& stop) {
  const std::string url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", hub.url,
                                      name.repository, part_of_address(revision_of(name)));
  std::string text;
  retry([&] { text = fetch_listing(hub, url, name, stop); }, &stop);
  return read_listing(text, "pull " + url);
}

PulledFiles pull_from_hub(const Hub& hub, const HubName& name, const fs::path& folder,
                          const StopFlag& stop) {
  PulledFiles pulled{.folder = folder / pulled_folder(without_file(name))};
  const HubListing listing =
      hub.is_offline ? listing_offline(name, pulled.folder) : list_hub(hub, name, stop);
  const std::vector<HubFile> files = files_to_pull(listing, name, hub);
  if (!hub.is_offline) refuse_without_room(name, pulled.folder, files);
  for (const HubFile& file : files) {
    const fs::path path = pulled.folder / file.path;
    const bool is_beside = &file != &files.front() && !is_further_part(file.path);
    if (is_beside && is_head_file(file.path)) pulled.heads.push_back(file.path);
    if (is_here(path, file, stop)) continue;
    if (hub.is_offline) refuse_offline(name, path.string() + " is not there and whole");
    fetch_file({.hub = hub, .name = name, .commit = listing.commit, .stop = stop}, file, path);
    pulled.had = false;
  }
  if (!hub.is_offline) try_to_keep(listing, name, pulled.folder);
  const std::string& first = files.front().path;
  pulled.main = first.ends_with(".gguf") ? pulled.folder / first : pulled.folder;
  return pulled;
}

}  // namespace talon
