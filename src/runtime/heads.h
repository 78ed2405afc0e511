#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "draft/registry.h"
#include "runtime/loaded_model.h"

namespace talon {

/// The file that pairs heads of strangers with their targets, in the folder of the heads:
/// {"pairs": [{"target_fingerprint": ..., "heads": [files of the folder]}, ...]}; "." stands for
/// the folder, as do missing "heads". Older files are one such pair. Heads that Talon trains say
/// the fingerprint in their configuration.
constexpr std::string_view kPairingFile = "talon.json";

using HeadNotes = std::function<void(std::string_view)>;

/// Finds the heads of the model with this fingerprint (model/load/fingerprint.h) in the folders of
/// `places`, and in theirs: the first of each kind, in the order of places and names, and the first
/// draft model (`draft`). Looks when it is first asked. A head of the model that cannot be read, as
/// one that was fetched in part, is passed over: `passed_over` is told why.
HeadFinder heads_in(std::vector<std::filesystem::path> places, std::string fingerprint,
                    HeadNotes passed_over = {});

/// Those of a model whose files are open. Where no file of the places has a prediction layer of it,
/// `mtp` is the model itself if it holds one that can be used.
HeadFinder heads_of(const Checkpoint& model, const ModelConfig& config,
                    std::vector<std::filesystem::path> places, HeadNotes passed_over = {});
/// Those of a model that is loaded, also among pulled models; `mtp` may be the model itself, too.
HeadFinder heads_of(const LoadedModel& loaded, std::vector<std::filesystem::path> places,
                    HeadNotes passed_over = {});

/// Whether what lies at `head` says that it drafts for other models than the one with this
/// fingerprint. Heads of strangers that nobody paired say nothing.
bool is_head_of_another(const std::filesystem::path& head, const std::string& fingerprint);

/// Drafters with heads of their own, the likely strongest first, and behind them that of the layer
/// which came with the model.
constexpr std::string_view kHeadKinds[] = {"eagle3", "dspark", "dflash", "peagle",
                                           "eagle2", "medusa", "mtp"};
/// Of which of them the files hold a head; empty: none.
std::string kind_of_head(const Checkpoint& checkpoint);
/// Throws Error naming the field in which a head and a target disagree.
void check_head_fits(const Checkpoint& head, const ModelConfig& target);

/// Pairs the heads in `files` of `folder` (empty: the folder is one) with a target. What is paired
/// in it stays so, by others at the same time as well: each waits for the file of the same name and
/// `.lock`, which stays.
void write_pairing(const std::filesystem::path& folder, const std::vector<std::string>& files,
                   const std::string& fingerprint);

/// What needs no head: suffix, which knows what a text repeats, or jacobi, which knows pictures.
enum class Answers { texts, pictures };
Answers answers_of(const ModelConfig& config);

/// The drafter that `auto` stands for: the strongest head there is, a trained one before the
/// model's own prediction layer, joined with what needs none; the latter alone where there is none.
/// Every other text stands for itself. Throws UsageError for a drafter that does not exist, and for
/// an `auto` that has options or others beside it.
std::string resolve_drafter(const std::string& drafter, const HeadFinder& heads,
                            Answers answers = Answers::texts);

}  // namespace talon
