#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/stop.h"

namespace talon {

/// A place that serves models as huggingface.co does.
struct Hub {
  std::string url;    // without a slash at its end
  std::string token;  // empty: none
};
/// `given` (--hub), else $HF_ENDPOINT, else huggingface.co; the token of $HF_TOKEN,
/// $HUGGING_FACE_HUB_TOKEN or the file that the hub's own client keeps ($HF_TOKEN_PATH, else in
/// $HF_HOME). Throws UsageError for an address that is none of HTTP: a token is not sent by guess.
Hub hub_of(const std::string& given);

/// Whether `path` lies below the repository and its every part is a plain name: letters, digits and
/// "-_.", which mean the same in addresses and as names of files.
bool is_safe_path(std::string_view path);

/// `owner/name` or `owner/name:file`.
struct HubName {
  std::string repository;
  std::string file;  // empty: what a model needs
};
/// Whether `text` is one: it has one slash and is no address.
bool is_hub_name(std::string_view text);
HubName parse_hub_name(const std::string& text);

struct HubFile {
  std::string path;
  std::optional<std::uint64_t> bytes = {};  // none: the hub does not say
  std::string sha256 = {};                  // in lower case; empty: the hub does not say
};
/// The files of a repository at one commit, sorted by path and each once.
struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};
/// Throws Error for an answer that is not a listing. Paths may be anything.
HubListing list_hub(const Hub& hub, const std::string& repository, const StopFlag& stop);

struct PulledFiles {
  std::filesystem::path folder = {};
  std::filesystem::path main = {};      // what to open: a GGUF file, or the folder
  std::vector<std::string> heads = {};  // GGUF files of draft heads in the folder
  bool had = true;                      // all of it was there and whole
};

/// Fetches what `name` says into `folder`/owner/name, going on with what is there of it; what is
/// whole is not fetched again. Throws Error, too, before it begins where the disk has no room for
/// all.
PulledFiles pull_from_hub(const Hub& hub, const HubName& name, const std::filesystem::path& folder,
                          const StopFlag& stop);

}  // namespace talon
