#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <chrono>

#include "cli/command.h"
#include "cli/options/draft_options.h"
#include "cli/options/places.h"
#include "cli/options/session.h"
#include "cli/serve/serve_options.h"
#include "cli/terminal/console.h"
#include "cli/train/train_head.h"
#include "core/error.h"
#include "draw/picture_prompt.h"
#include "text/prompt.h"

namespace talon {
namespace {

using Clock = std::chrono::steady_clock;
constexpr long kLastWordsMs = 5000;  // for answers that were cut off to be sent
constexpr long kWaitMs = 20;

/// SIGINT and SIGTERM, kept from every thread that is started while this lives: they wait until
/// somebody asks for them.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  ~HeldSignals() { pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  void await() const {
    int signal = 0;
    while (sigwait(&signals_, &signal) != 0) {
    }
  }
  /// Whether one came within `ms`.
  bool came_within(long ms) const {
    const timespec time = {ms / 1000, ms % 1000 * 1'000'000};
    return sigtimedwait(&signals_, nullptr, &time) > 0;
  }

 private:
  sigset_t signals_ = {};
};

LearnOptions learn_options(const ServeCommandOptions& options, bool draws) {
  if (options.models.size() > 1) {
    throw UsageError(fmt::format("--learn: expected one model, found {}", options.models.size()));
  }
  if (draws) throw UsageError("--learn: expected a model that writes text, found one that draws");
  LearnOptions learn;
  learn.folder = options.learn_folder;
  learn.trainer = trainer_program();
  learn.keep = options.learn_keep;
  learn.share = options.learn_share;
  learn.least_tokens = options.learn_tokens;
  learn.room_bytes = static_cast<std::size_t>(options.learn_room_mb) << 20;
  learn.note = [](const std::string& text) { write_note(text); };
  return learn;
}

/// promised: bytes of the caches of models that are open.
ServedModel open_served(const ServeCommandOptions& options, const std::string& name,
                        const std::string& model, std::size_t& promised) {
  ModelOptions source = options.model;
  source.model = model;
  LoadedModel loaded = load_with_meter(source);
  const bool draws = loaded.model.config.image.has_value();
  if (!draws) loaded.require_tokenizer();
  const auto bytes = static_cast<std::size_t>(source.cache_mb) << 20;
  auto cache = open_cache(loaded.model, {bytes, source.kv, promised});
  promised += cache->bytes();
  HostOptions host;
  host.decode = options.decode;
  if (draws && host.decode.drafter == "auto") host.decode.drafter = "jacobi";
  use_places(host.decode, loaded, cache->store().shape.type);
  host.step_ms = options.step_ms;
  host.queue = options.server.queue;
  if (!options.learn_folder.empty()) host.learn = learn_options(options, draws);
  ServedModel served;
  served.name = name;
  if (draws) {
    served.pictures = std::make_unique<PictureStudio>(
        open_picture_decoder(loaded.model, options.vq), prompt_choices(loaded.model));
  } else if (loaded.tokenizer->chat_template()) {
    served.chat = chat_template_of(*loaded.tokenizer);
  }
  served.host = std::make_unique<ModelHost>(std::move(loaded), std::move(cache), std::move(host));
  return served;
}

class Serve : public Command {
 public:
  explicit Serve(CLI::App& parent)
      : Command(parent.add_subcommand("serve", "answer over HTTP, as OpenAI's interface does")) {
    add_serve_flags(*app_, options_);
  }

  int run() override {
    split_drafter(*app_, options_.decode);
    const auto start = Clock::now();
    const HeldSignals signals;
    const auto named = named_models(options_.models);
    options_.server.api_keys = api_keys(options_);
    std::vector<ServedModel> models;
    std::size_t promised = 0;
    for (const auto& [name, model] : named) {
      models.push_back(open_served(options_, name, model, promised));
      note("{}: {}, drafter {}", name, models.back().host->loaded().path.string(),
           models.back().host->drafter());
    }
    Server server(options_.server, std::move(models));
    const std::chrono::duration<double> seconds = Clock::now() - start;
    note("listening on {} (ready after {:.2f} s)", server.address(), seconds.count());
    signals.await();
    return drain(server, signals);
  }

 private:
  int drain(Server& server, const HeldSignals& signals) const {
    note("ending: running answers have {} s; another signal ends at once", options_.drain_s);
    server.drain();
    const auto end = Clock::now() + std::chrono::duration<double>(options_.drain_s);
    while (!server.idle() && Clock::now() <= end) wait(signals);
    if (!server.idle()) server.cancel_all();
    // Counted in waits and not by the clock: a process that is stopped or starved meanwhile has its
    // last words all the same.
    for (int waits = 0; !server.idle() && waits * kWaitMs < kLastWordsMs; ++waits) wait(signals);
    return kExitDone;
  }

  /// A short while. Another signal ends the process.
  void wait(const HeldSignals& signals) const {
    if (!signals.came_within(kWaitMs)) return;
    if (!options_.server.http.unix_path.empty()) unlink(options_.server.http.unix_path.c_str());
    _exit(kExitInterrupted);
  }

  ServeCommandOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_serve(CLI::App& parent) { return std::make_unique<Serve>(parent); }

}  // namespace talon
