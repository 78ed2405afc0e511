#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/pull/hub_listing.h"
#include "core/stop.h"

namespace talon {

/// A place that serves models as huggingface.co does.
struct Hub {
  std::string url;          // without a slash at its end
  std::string token;        // empty: none
  bool is_offline = false;  // it is not to be asked
};
/// `given` (--hub), else $HF_ENDPOINT, else huggingface.co; the token of $HF_TOKEN,
/// $HUGGING_FACE_HUB_TOKEN or the file that the hub's own client keeps ($HF_TOKEN_PATH, else in
/// $HF_HOME); offline where $HF_HUB_OFFLINE is 1, true, on or yes, in any case. Throws UsageError
/// for an address that is none of HTTP: a token is not sent by guess.
Hub hub_of(const std::string& given);

/// Whether `path` lies below the repository and its every part is a plain name: letters, digits and
/// "-_.", which mean the same in addresses and as names of files.
bool is_safe_path(std::string_view path);

/// `owner/name` or `owner/name@revision`, alone or with `:file` behind it.
struct HubName {
  std::string repository;     // owner/name
  std::string file;           // empty: what a model needs
  std::string revision = {};  // a branch, a tag or a commit; empty: the default branch
};
/// Whether `text` may be one: it has a slash and is no address.
bool is_hub_name(std::string_view text);
/// Throws UsageError for text that is none.
HubName parse_hub_name(const std::string& text);
/// `owner/name` or `owner/name@revision`.
std::string without_file(const HubName& name);

/// Asks for the files at the revision of `name`, again where that may help. Throws Error for a
/// refusal and an answer that is not a listing.
HubListing list_hub(const Hub& hub, const HubName& name, const StopFlag& stop);

struct PulledFiles {
  std::filesystem::path folder = {};
  std::filesystem::path main = {};      // what to open: a GGUF file, or the folder
  std::vector<std::string> heads = {};  // GGUF files of draft heads in the folder
  bool had = true;                      // all of it was there and whole
};

/// Fetches what `name` says into its folder (pulled_folder()) in `folder`, going on with what is
/// there of it; what is whole is not fetched again. Of a hub that is offline nothing is asked: what
/// is not there and whole, by the listing that an earlier pull kept, is an Error. Throws Error,
/// too, before it begins where the disk has no room for all.
PulledFiles pull_from_hub(const Hub& hub, const HubName& name, const std::filesystem::path& folder,
                          const StopFlag& stop);

}  // namespace talon
