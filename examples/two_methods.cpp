// Serves two requests at once on one engine, each drafted by a method of its own; the second comes
// while the first runs. usage: two_methods MODEL PROMPT
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "core/error.h"
#include "runtime/cache_budget.h"
#include "runtime/heads/heads.h"
#include "runtime/loaded_model.h"
#include "runtime/named_methods.h"
#include "text/prompt.h"

namespace {

struct Answer {
  std::string method, text;
  int checks = 0;
};

/// One engine and what became of its requests, by sequence.
struct Service {
  talon::Engine& engine;
  talon::NamedMethods& methods;
  std::map<talon::SequenceId, Answer> answers = {};

  void submit(talon::Request request, const std::string& method) {
    request.method = methods.get(method);
    const auto submitted = engine.submit(std::move(request));
    if (const auto* refusal = std::get_if<talon::Refusal>(&submitted))
      throw talon::Error(refusal->message);
    answers[std::get<talon::SequenceId>(submitted)].method = method;
  }

  void step() {
    for (const talon::Progress& progress : engine.step()) {
      Answer& answer = answers.at(progress.sequence);
      answer.text += progress.text;
      answer.checks = engine.statistics(progress.sequence).rounds;
      if (progress.finish != talon::FinishReason::none)
        std::printf("%s, %d checks:%s\n", answer.method.c_str(), answer.checks,
                    answer.text.c_str());
    }
  }
};

talon::Request make_request(const talon::LoadedModel& loaded, const char* prompt) {
  const int context = loaded.model.config.context;
  talon::Request request;
  request.prompt = talon::encode_prompt(loaded.require_tokenizer(), prompt, context);
  request.max_new = std::min(60, context - static_cast<int>(request.prompt.size()));
  request.end_tokens = loaded.end_tokens;
  return request;
}

void serve(const char* model, const char* prompt) {
  const talon::LoadedModel loaded = talon::open_model({.model = model});
  const auto cache = talon::open_cache(loaded.model);
  talon::DecodeSettings settings;
  settings.heads = talon::heads_of(loaded, {"models"});  // those that ship with Talon
  talon::Engine engine(loaded.model, *cache,
                       engine_options(settings, loaded.model, loaded.tokenizer_or_null()));
  talon::NamedMethods methods(engine, loaded.model, *cache, settings);

  Service service{engine, methods};
  const talon::Request request = make_request(loaded, prompt);
  service.submit(request, "none");
  for (int i = 0; i < 5; ++i) service.step();
  service.submit(request, "suffix@policy=fixed");
  while (!engine.idle()) service.step();

  const Answer &plain = service.answers.begin()->second,
               &drafted = service.answers.rbegin()->second;
  std::printf("%s\n", plain.text == drafted.text && drafted.checks < plain.checks
                          ? "the same text in fewer checks"
                          : "not what it should be");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: two_methods MODEL PROMPT\n");
    return 2;
  }
  try {
    serve(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "two_methods: %s\n", error.what());
    return 1;
  }
}
