// Opens a model, answers one prompt, and prints the answer as it grows.
// usage: answer MODEL PROMPT [DRAFTER]
#include <algorithm>
#include <cstdio>
#include <exception>

#include "runtime/answerer.h"
#include "runtime/cache_budget.h"
#include "runtime/heads/heads.h"
#include "runtime/loaded_model.h"
#include "text/prompt.h"

namespace {

talon::Request make_request(const talon::LoadedModel& loaded, const char* prompt) {
  const int context = loaded.model.config.context;
  talon::Request request;
  request.prompt = talon::encode_prompt(loaded.require_tokenizer(), prompt, context);
  request.max_new = std::min(100, context - static_cast<int>(request.prompt.size()));
  request.end_tokens = loaded.end_tokens;
  return request;
}

void answer(const char* model, const char* prompt, const char* drafter) {
  const talon::LoadedModel loaded = talon::open_model({.model = model});
  const auto cache = talon::open_cache(loaded.model);

  talon::DecodeSettings settings;
  settings.drafter = drafter;
  settings.heads = talon::heads_of(loaded, {"models"});  // those that ship with Talon
  talon::Answerer answerer(loaded.model, *cache, loaded.tokenizer_or_null(), settings);

  const talon::Answer answer =
      answerer.decode(make_request(loaded, prompt), [](const talon::Progress& progress) {
        std::fwrite(progress.text.data(), 1, progress.text.size(), stdout);
        std::fflush(stdout);
      });
  std::fprintf(stderr, "\n%s: %.2f tokens a check\n", answerer.drafter().c_str(), answer.tau());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: answer MODEL PROMPT [DRAFTER]\n");
    return 2;
  }
  try {
    answer(argv[1], argv[2], argc > 3 ? argv[3] : "auto");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "answer: %s\n", error.what());
    return 1;
  }
}
