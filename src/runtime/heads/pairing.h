#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// The file that pairs heads of strangers with their targets, in the folder of the heads:
/// {"pairs": [{"target_fingerprint": ..., "heads": [files of the folder]}, ...]}; "." stands for
/// the folder, as do missing "heads". Older files are one such pair. Heads that Talon trains say
/// the fingerprint in their configuration.
constexpr std::string_view kPairingFile = "talon.json";

/// What lies in `folder` for the model with this fingerprint (model/load/fingerprint.h): files of
/// it, or itself.
std::vector<std::filesystem::path> heads_of_folder(const std::filesystem::path& folder,
                                                   const std::string& fingerprint);

/// Whether what lies at `head` says that it drafts for other models than the one with this
/// fingerprint. Heads of strangers that nobody paired say nothing.
bool is_head_of_another(const std::filesystem::path& head, const std::string& fingerprint);
/// Those among the heads that a drafter's text (draft/registry.h) names by `head=`. Throws
/// UsageError for a text that is none.
std::vector<std::string> heads_of_another(std::string_view drafter, const std::string& fingerprint);

/// Pairs the heads in `files` of `folder` (empty: the folder is one) with a target. What is paired
/// in it stays so, by others at the same time as well: each waits for the file of the same name and
/// `.lock`, which stays.
void write_pairing(const std::filesystem::path& folder, const std::vector<std::string>& files,
                   const std::string& fingerprint);

}  // namespace talon
