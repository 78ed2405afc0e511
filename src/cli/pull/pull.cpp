#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/model_options.h"
#include "cli/options/places.h"
#include "cli/pull/download.h"
#include "cli/pull/hub.h"
#include "cli/pull/install.h"
#include "cli/pull/pairing.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "runtime/catalogue.h"

namespace talon {
namespace {

bool is_url(const std::string& name) { return name.find("://") != std::string::npos; }

/// The last part of a URL's path: the name of the file it becomes.
std::string file_name_of(const std::string& url) {
  std::string path = url.substr(url.find("://") + 3);
  path.resize(std::min(path.find_first_of("?#"), path.size()));
  const std::size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? "" : path.substr(slash + 1);
  if (name.empty() || name == "." || name == "..") {
    throw UsageError(
        fmt::format("pull {}: expected a URL that ends in a file name (or give -o FILE)", url));
  }
  return name;
}

class Pull : public Command {
 public:
  explicit Pull(CLI::App& parent)
      : Command(parent.add_subcommand("pull", "fetch a model, or list those known by name")) {
    app_->add_option("name", name_,
                     "a catalogue name, OWNER/NAME[@REVISION][:FILE] of a hub, a URL, or `list`")
        ->required()
        ->type_name("NAME|OWNER/NAME[@REVISION][:FILE]|URL|list");
    app_->add_option("--hub", hub_,
                     "address of the hub (default: $HF_ENDPOINT, else huggingface.co)")
        ->type_name("URL");
    add_models_folder_flag(*app_, folder_);
    app_->add_option("--for", target_,
                     "of a draft head from a hub: the model that it drafts for, from then on")
        ->type_name("MODEL");
    app_->add_option("--sha256", sha256_, "the checksum that a URL's file must have")
        ->type_name("HEX");
    app_->add_option("-o,--output", output_,
                     "where a URL's file goes (default: its own name in the models folder)")
        ->type_name("FILE");
    app_->add_flag("--json", json_, "print JSON");
  }

  int run() override {
    check_options();
    const std::filesystem::path folder = models_folder(folder_);
    if (name_ == "list") return list(folder);
    if (folder.empty() && output_.empty()) {
      throw UsageError(
          "pull: no folder for models: give --models DIR (neither $TALON_MODELS nor $HOME is set)");
    }
    const InterruptGuard interrupt;
    try {
      if (is_url(name_)) return pull_url(folder, interrupt.stop());
      if (is_hub_name(name_)) return pull_hub(folder, interrupt.stop());
      return pull_entry(folder, interrupt.stop());
    } catch (const Error& error) {
      if (!interrupt.stop().requested()) throw;
      note("talon: pull {}: interrupted ({})", name_, error.what());
      return kExitInterrupted;
    }
  }

 private:
  /// Refuses options that a name of this kind has no use for.
  void check_options() const {
    if (!is_url(name_) && (!sha256_.empty() || !output_.empty())) {
      throw UsageError(fmt::format("pull {}: --sha256 and -o are for URLs", name_));
    }
    if (!is_hub_name(name_) && (!hub_.empty() || !target_.empty())) {
      throw UsageError(fmt::format("pull {}: --hub and --for are for OWNER/NAME of a hub", name_));
    }
  }

  int list(const std::filesystem::path& folder) const {
    Json rows = Json::array();
    std::string text;
    for (const CatalogueEntry& entry : catalogue()) {
      const std::filesystem::path path = catalogue_path(folder, entry, entry.files.front());
      std::error_code ignored;
      const bool here = std::filesystem::exists(path, ignored);
      rows.push_back({{"name", entry.name},
                      {"summary", entry.summary},
                      {"licence", entry.licence},
                      {"bytes", entry.files.front().bytes},
                      {"path", path.string()},
                      {"here", here}});
      text += fmt::format("{:<12} {:>9}  {:<11} {:<9} {}\n", entry.name,
                          bytes_text(static_cast<double>(entry.files.front().bytes)), entry.licence,
                          here ? "here" : "not here", entry.summary);
    }
    if (json_) {
      write_json({{"models", rows}, {"folder", folder.string()}});
    } else {
      write_output(text);
      note("models folder: {}", folder.string());
    }
    return kExitDone;
  }

  int pull_entry(const std::filesystem::path& folder, const StopFlag& stop) const {
    const CatalogueEntry* entry = find_in_catalogue(name_);
    if (!entry) {
      throw UsageError(
          fmt::format("pull: expected {}, OWNER/NAME of a hub, a URL or list, got \"{}\"",
                      one_of(catalogue_names()), name_));
    }
    const bool had = is_installed(*entry, folder, stop);
    if (!had) {
      note("pull {}: about {} to fetch, licence {}", name_,
           bytes_text(static_cast<double>(entry->download_bytes)), entry->licence);
      install(*entry, folder, stop);
    }
    say_done(catalogue_path(folder, *entry, entry->files.front()), had);
    return kExitDone;
  }

  int pull_hub(const std::filesystem::path& folder, const StopFlag& stop) const {
    const HubName name = parse_hub_name(name_);
    const Hub hub = hub_of(hub_);
    const PulledFiles pulled = pull_from_hub(hub, name, folder, stop);
    Json about = {{"path", pulled.main.string()},
                  {"already_here", pulled.had},
                  {"hub_asked", !hub.is_offline}};
    about.update(pair_pulled(pulled, target_, folder));
    if (json_) {
      write_json(about);
    } else {
      write_output(pulled.main.string() + "\n");
      if (hub.is_offline) {
        note("already there and whole; the hub was not asked: $HF_HUB_OFFLINE is set");
      }
      note("{}", pairing_text(about));
    }
    return kExitDone;
  }

  int pull_url(const std::filesystem::path& folder, const StopFlag& stop) {
    check_sha256();
    const std::filesystem::path target =
        output_.empty() ? folder / file_name_of(name_) : std::filesystem::path(output_);
    std::error_code problem;
    if (std::filesystem::exists(target, problem)) {
      fail("pull {}: {} is there already: remove it or give -o FILE", name_, target.string());
    }
    if (target.has_parent_path()) {
      std::filesystem::create_directories(target.parent_path(), problem);
      if (problem)
        fail("pull {}: cannot make the folder {}: {}", name_, target.parent_path().string(),
             problem.message());
    }
    download({.url = name_, .target = target, .sha256 = sha256_, .stop = &stop});
    say_done(target, false);
    return kExitDone;
  }

  void check_sha256() {
    const bool is_hex = std::all_of(sha256_.begin(), sha256_.end(),
                                    [](unsigned char c) { return std::isxdigit(c); });
    if (!sha256_.empty() && (sha256_.size() != 64 || !is_hex)) {
      throw UsageError(
          fmt::format("--sha256: expected 64 hexadecimal digits, got \"{}\"", sha256_));
    }
    std::transform(sha256_.begin(), sha256_.end(), sha256_.begin(),
                   [](unsigned char c) { return std::tolower(c); });
  }

  void say_done(const std::filesystem::path& path, bool had) const {
    if (json_) {
      write_json({{"path", path.string()}, {"already_here", had}});
    } else {
      write_output(path.string() + "\n");
      if (had) note("already there and whole");
    }
  }

  std::string name_;
  std::string folder_;
  std::string sha256_;
  std::string output_;
  std::string hub_;
  std::string target_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_pull(CLI::App& parent) { return std::make_unique<Pull>(parent); }

}  // namespace talon
