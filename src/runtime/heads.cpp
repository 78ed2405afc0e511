#include "runtime/heads.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "core/error.h"
#include "draft/block/block_config.h"
#include "draft/head/head_config.h"
#include "draft/medusa/medusa_weights.h"
#include "draft/registry.h"
#include "io/atomic_file.h"
#include "io/checkpoint.h"
#include "io/file_lock.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "model/config/config.h"
#include "model/load/fingerprint.h"
#include "model/load/prediction_layer.h"

namespace talon {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFingerprint = "target_fingerprint";
constexpr const char* kHeadFile = "head.gguf";
constexpr const char* kItself = ".";  // the folder, among its heads
constexpr std::string_view kAuto = "auto";
constexpr int kDepth = 2;  // OWNER/NAME below the folder of pulled models
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

/// What lies in `folder` for the model.
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

/// Looks once, when it is first asked.
class Shelf {
 public:
  Shelf(std::vector<fs::path> places, std::string fingerprint, HeadNotes passed_over)
      : places_(std::move(places)),
        fingerprint_(std::move(fingerprint)),
        passed_over_(std::move(passed_over)) {}

  std::string find(std::string_view kind) {
    std::call_once(looked_, [this] {
      heads_.clear();
      if (fingerprint_.empty()) return;
      for (const fs::path& place : places_) look(place, kDepth);
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
      if (passed_over_) passed_over_(error.what());
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
  HeadNotes passed_over_;
  std::once_flag looked_;
  std::vector<Head> heads_;
};

/// As `others`, but where they know no prediction layer it is that in the model's own files.
HeadFinder with_own_layer(HeadFinder others, const fs::path& model) {
  return [others = std::move(others), model = model.string()](std::string_view kind) {
    std::string head = others(kind);
    return head.empty() && kind == "mtp" ? model : head;
  };
}

/// The table of drafters does not know `auto`, and so cannot list it.
void check_names(const std::string& drafter) {
  for (const std::string_view part : split_drafters(drafter)) {
    const std::string name = OptionText(part).name;
    if (name == kAuto) {
      throw UsageError(fmt::format(
          "drafter: expected auto alone, without options or others beside it, found \"{}\"",
          drafter));
    }
    if (find_row(drafters(), name)) continue;
    std::string known(kAuto);
    for (const DrafterEntry& entry : drafters()) known += fmt::format(", {}", entry.name);
    throw UsageError(fmt::format("drafter: expected one of {}, found \"{}\"", known, name));
  }
}

}  // namespace

HeadFinder heads_in(std::vector<fs::path> places, std::string fingerprint, HeadNotes passed_over) {
  auto shelf =
      std::make_shared<Shelf>(std::move(places), std::move(fingerprint), std::move(passed_over));
  return [shelf](std::string_view kind) { return shelf->find(kind); };
}

HeadFinder heads_of(const Checkpoint& model, const ModelConfig& config,
                    std::vector<fs::path> places, HeadNotes passed_over) {
  HeadFinder heads =
      heads_in(std::move(places), fingerprint_of(model, config), std::move(passed_over));
  if (!prediction_problem(model, config).empty()) return heads;
  return with_own_layer(std::move(heads), model.path);
}

HeadFinder heads_of(const LoadedModel& loaded, std::vector<fs::path> places,
                    HeadNotes passed_over) {
  if (!loaded.models_folder.empty()) places.push_back(loaded.models_folder);
  HeadFinder heads = heads_in(std::move(places), loaded.fingerprint, std::move(passed_over));
  return loaded.predicts ? with_own_layer(std::move(heads), loaded.path) : heads;
}

bool is_head_of_another(const fs::path& head, const std::string& fingerprint) {
  std::error_code problem;
  const bool is_folder = fs::is_directory(head, problem);
  const fs::path folder = is_folder ? head : head.parent_path();
  const std::string name = is_folder ? kItself : head.filename().string();
  std::vector<std::string> targets;
  if (const fs::path file = folder / kPairingFile; fs::is_regular_file(file, problem)) {
    for (const Pairing& pairing : pairings_in(file)) {
      const bool is_paired = std::ranges::find(pairing.heads, name) != pairing.heads.end();
      if (is_paired) targets.push_back(pairing.fingerprint);
    }
  }
  targets.push_back(is_folder                     ? target_of_folder(folder)
                    : head.extension() == ".gguf" ? target_of_gguf(head)
                                                  : "");
  std::erase(targets, "");
  return !targets.empty() && std::ranges::find(targets, fingerprint) == targets.end();
}

std::string kind_of_head(const Checkpoint& checkpoint) {
  if (is_medusa_head(checkpoint)) return "medusa";
  if (is_block_head(checkpoint)) {
    const BlockConfig config = read_block_config(checkpoint, block_tensors(checkpoint));
    return config.markov_rank > 0 ? "dspark" : "dflash";
  }
  if (is_prediction_layer_alone(checkpoint)) return "mtp";
  if (!is_draft_head(checkpoint)) return "";
  switch (read_head_config(checkpoint, HeadTensors(checkpoint)).generation) {
    case HeadGeneration::eagle1:
      return "eagle2";
    case HeadGeneration::eagle3:
      return "eagle3";
    case HeadGeneration::peagle:
      return "peagle";
  }
  throw Bug("a generation of heads without a drafter");
}

void check_head_fits(const Checkpoint& head, const ModelConfig& target) {
  if (is_medusa_head(head)) return check_medusa_fits(head, target);
  if (is_block_head(head)) {
    const HeadTensors tensors = block_tensors(head);
    fit_to_target(read_block_config(head, tensors), target, tensors.doing());
    return;
  }
  if (is_prediction_layer_alone(head)) {
    const std::string problem = prediction_problem(head, target);
    if (!problem.empty()) fail("load head {}: {}", quote(head.path.string()), problem);
    return;
  }
  const HeadTensors tensors(head);
  fit_to_target(read_head_config(head, tensors), target, tensors.doing());
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

Answers answers_of(const ModelConfig& config) {
  return config.image ? Answers::pictures : Answers::texts;
}

std::string resolve_drafter(const std::string& drafter, const HeadFinder& heads, Answers answers) {
  if (drafter != kAuto) {
    check_names(drafter);
    return drafter;
  }
  const std::string headless = answers == Answers::pictures ? "jacobi" : "suffix";
  for (const std::string_view kind : kHeadKinds) {
    if (heads && !heads(kind).empty()) return std::string(kind) + "+" + headless;
  }
  return headless;
}

}  // namespace talon
