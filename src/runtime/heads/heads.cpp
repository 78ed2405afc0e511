#include "runtime/heads/heads.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "io/checkpoint.h"
#include "model/config/config.h"
#include "model/load/fingerprint.h"
#include "model/load/prediction_layer.h"
#include "runtime/heads/head_kind.h"
#include "runtime/heads/pairing.h"

namespace talon {
namespace {

namespace fs = std::filesystem;
constexpr int kSearchDepth = 2;  // OWNER/NAME below the folder of pulled models

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (std::error_code other; entry->is_directory(other)) folders.push_back(entry->path());
  }
  std::ranges::sort(folders);
  return folders;
}

/// What the files draft with: a head, or a model of their own. Throws Error for other files.
std::string drafter_of(const Checkpoint& files) {
  std::string kind = kind_of_head(files);
  if (!kind.empty()) return kind;
  read_model_config(files);
  return "draft";
}

/// What heads_in() finds. Looks once, when it is first asked; several threads may ask.
class HeadSearch {
 public:
  HeadSearch(std::vector<fs::path> places, std::string fingerprint, HeadWarnings warn)
      : places_(std::move(places)), fingerprint_(std::move(fingerprint)), warn_(std::move(warn)) {}

  std::string find(std::string_view kind) {
    std::call_once(looked_, [this] {
      heads_.clear();
      if (fingerprint_.empty()) return;
      for (const fs::path& place : places_) look(place, kSearchDepth);
    });
    const auto head = std::ranges::find(heads_, kind, &Head::kind);
    return head == heads_.end() ? "" : head->path.string();
  }

 private:
  struct Head {
    std::string kind;
    fs::path path;
  };

  /// No file of strangers ends the search, whatever reading it throws.
  template <typename Step>
  void try_to(const Step& step) {
    try {
      step();
    } catch (const std::exception& error) {
      if (warn_) warn_(error.what());
    }
  }

  void look(const fs::path& folder, int depth) {
    try_to([&] {
      for (const fs::path& head : heads_of_folder(folder, fingerprint_)) {
        try_to([&] { heads_.push_back({drafter_of(open_checkpoint(head)), head}); });
      }
    });
    if (depth == 0) return;
    for (const fs::path& below : folders_in(folder)) look(below, depth - 1);
  }

  std::vector<fs::path> places_;
  std::string fingerprint_;
  HeadWarnings warn_;
  std::once_flag looked_;
  std::vector<Head> heads_;
};

/// The places, behind the model itself where that is a folder.
std::vector<fs::path> with_own_folder(std::vector<fs::path> places, const fs::path& model) {
  std::error_code problem;
  if (fs::is_directory(model, problem)) places.insert(places.begin(), model);
  return places;
}

/// As `others`, but where they know no prediction layer it is that in the model's own files.
HeadFinder with_own_layer(HeadFinder others, const fs::path& model) {
  return [others = std::move(others), model = model.string()](std::string_view kind) {
    std::string head = others(kind);
    return head.empty() && kind == "mtp" ? model : head;
  };
}

}  // namespace

HeadFinder heads_in(std::vector<fs::path> places, std::string fingerprint, HeadWarnings warn) {
  auto search =
      std::make_shared<HeadSearch>(std::move(places), std::move(fingerprint), std::move(warn));
  return [search](std::string_view kind) { return search->find(kind); };
}

HeadFinder heads_of(const Checkpoint& model, const ModelConfig& config,
                    std::vector<fs::path> places, HeadWarnings warn) {
  HeadFinder heads = heads_in(with_own_folder(std::move(places), model.path),
                              fingerprint_of(model, config), std::move(warn));
  if (!prediction_problem(model, config).empty()) return heads;
  return with_own_layer(std::move(heads), model.path);
}

HeadFinder heads_of(const LoadedModel& loaded, std::vector<fs::path> places, HeadWarnings warn) {
  if (!loaded.models_folder.empty()) places.push_back(loaded.models_folder);
  HeadFinder heads = heads_in(with_own_folder(std::move(places), loaded.path), loaded.fingerprint,
                              std::move(warn));
  return loaded.predicts ? with_own_layer(std::move(heads), loaded.path) : heads;
}

}  // namespace talon
